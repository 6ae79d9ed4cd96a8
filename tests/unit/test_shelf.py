"""What the server keeps for a while stays within its bounds."""

from __future__ import annotations

from specviz.shelf import Shelf


def test_the_longest_unused_falls_off_first() -> None:
    shelf: Shelf[str] = Shelf(10)
    shelf.put("a", "A", 4)
    shelf.put("b", "B", 4)
    assert shelf.get("a") == "A"
    shelf.put("c", "C", 4)
    assert [shelf.get(name) for name in "abc"] == ["A", None, "C"]


def test_a_thing_put_again_weighs_once() -> None:
    shelf: Shelf[str] = Shelf(10)
    for _ in range(5):
        shelf.put("a", "A", 6)
    shelf.put("b", "B", 4)
    assert (shelf.get("a"), shelf.get("b")) == ("A", "B")


def test_what_is_too_heavy_is_not_kept_and_pushes_nothing_off() -> None:
    shelf: Shelf[str] = Shelf(10)
    shelf.put("a", "A", 6)
    shelf.put("b", "B", 11)
    assert (shelf.get("a"), shelf.get("b")) == ("A", None)


def test_what_is_kept_for_good_never_falls_off() -> None:
    shelf: Shelf[str] = Shelf(10)
    shelf.keep("first", "F")
    for i in range(20):
        shelf.put(str(i), "x", 9)
    assert shelf.get("first") == "F"
