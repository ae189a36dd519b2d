"""Prices of items."""

PRICES = {"tea": 4, "coffee": 6, "cup": 9}


def price(item: str, count: int) -> int:
    """The price of this number of an item, with the discount."""
    return discount(PRICES[item] * count, count)


def discount(amount: int, count: int) -> int:
    """Takes off a tenth for twelve or more."""
    return amount * 9 // 10 if count >= 12 else amount
