"""English words that are read and written the same whatever the user's locale is: months, days, numbers of things."""

from __future__ import annotations

from datetime import date

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def day_in_words(day: date) -> str:
    """A day as `17 May 2024`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def counted(count: int, noun: str) -> str:
    """How many there are: `1 document`, `1,948 documents`, `2 searches`, `0 queries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"
