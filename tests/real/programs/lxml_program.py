"""lxml: functions, parser targets, resolvers and element classes in Python, called from Cython; threads."""

import io
import sys
import threading
from typing import Any

from lxml import etree, objectify

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"


SHOP = (
    "<shop>" + "".join(f'<order id="{n}"><item price="{n * 2}">thing {n}</item></order>' for n in range(30)) + "</shop>"
)


def half(context: Any, values: list[Any]) -> float:
    return step(sum(float(v) for v in values) / 2)


def fails(context: Any) -> None:
    raise LookupError(f"at {context.context_node.tag}")


def functions() -> None:
    namespace = etree.FunctionNamespace("urn:shop")
    namespace["half"] = half
    namespace["fails"] = fails
    tree = etree.fromstring(SHOP)
    names = {"s": "urn:shop"}
    print(
        "xpath",
        tree.xpath("s:half(//item/@price)", namespaces=names),
        len(tree.xpath("//order[s:half(item/@price) > 20]", namespaces=names)),
    )
    print(refused(lambda: tree.xpath("//order[s:fails()]", namespaces=names)))
    print(refused(lambda: tree.xpath("//order[")))
    print(refused(lambda: etree.XPath("$no")(tree)))
    sheet = etree.XSLT(etree.XML("""<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"
      xmlns:s="urn:shop">
      <x:template match="shop"><sum><x:value-of select="s:half(order/item/@price)"/></sum></x:template>
      <x:template match="broken"><x:value-of select="s:fails()"/></x:template></x:stylesheet>"""))  # fmt: skip
    print("xslt", str(sheet(tree)).strip().splitlines()[-1])
    print(refused(lambda: sheet(etree.XML("<broken/>"))))


class Target:
    """A parser's callbacks."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def start(self, tag: str, attributes: Any) -> None:
        self.seen.append(step(tag))

    def end(self, tag: str) -> None:
        if tag == "bad":
            raise RuntimeError("the target had enough")

    def close(self) -> int:
        return len(self.seen)


class Resolver(etree.Resolver):
    """Answers for documents that an entity names."""

    def resolve(self, url: str, public: str, context: Any) -> Any:
        if "missing" in url:
            raise FileNotFoundError(url)
        return self.resolve_string(step("<!ENTITY greeting 'hello'>"), context)


class Order(etree.ElementBase):
    """A class for elements."""

    def _init(self) -> None:
        step(self.tag)

    @property
    def number(self) -> int:
        return int(self.get("id"))


class Lookup(etree.PythonElementClassLookup):
    """Chooses that class."""

    def lookup(self, document: Any, element: Any) -> Any:
        return Order if step(element.tag) == "order" else None


def parsers() -> None:
    print("target", etree.fromstring(SHOP, etree.XMLParser(target=Target())))
    print(refused(lambda: etree.fromstring("<a><bad/></a>", etree.XMLParser(target=Target()))))
    parser = etree.XMLParser(load_dtd=True, resolve_entities=True)
    parser.resolvers.add(Resolver())
    print("resolver", etree.fromstring('<!DOCTYPE a SYSTEM "own.dtd"><a>&greeting;</a>', parser).text)
    print(refused(lambda: etree.fromstring('<!DOCTYPE a SYSTEM "missing.dtd"><a>&greeting;</a>', parser)))
    parser = etree.XMLParser()
    parser.set_element_class_lookup(Lookup())
    print("classes", sum(order.number for order in etree.fromstring(SHOP, parser) if isinstance(order, Order)))
    print("iterparse", sum(1 for _ in etree.iterparse(io.BytesIO(SHOP.encode()), events=("start", "end"))))
    print(refused(lambda: etree.fromstring("<a><b></a>")))
    print(refused(lambda: etree.fromstring("")))
    print("objectify", objectify.fromstring(SHOP).order[3].item, refused(lambda: objectify.fromstring(SHOP).nothing))
    schema = etree.RelaxNG(etree.XML('<element name="a" xmlns="http://relaxng.org/ns/structure/1.0"><text/></element>'))
    print("schema", schema.validate(etree.XML("<a/>")), refused(lambda: schema.assertValid(etree.XML("<b/>"))))
    print(
        refused(lambda: etree.Element("no name")),
        refused(lambda: etree.SubElement(etree.Element("a"), "b", {"c": None})),
    )

    class Short:
        def read(self, size: int) -> bytes:
            raise OSError("the disk is gone")

    print(refused(lambda: etree.parse(Short())))
    out = io.BytesIO()
    with etree.xmlfile(out) as file, file.element("root"):
        for n in range(3):
            file.write(etree.Element("n", value=step(str(n))))
    print("written", out.getvalue().decode())


def threads() -> None:
    totals: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            refused(lambda: etree.fromstring("<a><b></a>"))
        totals.append(len(etree.fromstring(SHOP).xpath(f"//order[@id > {number}]")))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("threads", sorted(totals))


def main() -> int:
    functions()
    parsers()
    threads()
    print("steps", steps)
    return 5


if __name__ == "__main__":
    sys.exit(main())
