"""What things cost."""

PRICES = {"tea": 4, "coffee": 6, "cup": 9}


def price(item: str, count: int) -> int:
    """The price of some of a thing, cheaper by the dozen."""
    return discount(PRICES[item] * count, count)


def discount(amount: int, count: int) -> int:
    """A tenth off from twelve on."""
    return amount * 9 // 10 if count >= 12 else amount
