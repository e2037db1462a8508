"""When two spellings are one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.knowledge.names import base_key, entity_key, full_name, is_literal, mentions, numbers


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The Orla Bridge", "Orla bridge"),
        ("Pál Gábor", "Pal Gabor"),
        ("Ada Quill’s", "Ada Quill"),
        ("Saint-Denis", "saint denis"),
    ],
)
def test_spellings_of_one_name_share_a_key(left: str, right: str) -> None:
    assert entity_key(left) == entity_key(right)


def test_brackets_tell_entities_apart_and_the_base_does_not() -> None:
    assert entity_key("Forbidden Ground (2013 film)") != entity_key("Forbidden Ground")
    assert base_key("Forbidden Ground (2013 film)") == entity_key("Forbidden Ground")


def test_names_that_hold_more_than_letters_stay_apart() -> None:
    assert len({entity_key(name) for name in ("C", "C++", "C#")}) == 3
    assert entity_key("!!!") == "!!!"


@given(st.text())
def test_a_key_is_its_own_key(name: str) -> None:
    assert entity_key(entity_key(name)) == entity_key(name)


@pytest.mark.parametrize("name", ["1948", "2 November 1932", "July 23, 1968", "c. 1900", "3rd"])
def test_dates_and_numbers_are_literals(name: str) -> None:
    assert is_literal(name)


@pytest.mark.parametrize("name", ["Ada Quill", "May", "Boeing 747", "", "Apollo 11"])
def test_names_are_none(name: str) -> None:
    assert not is_literal(name)


@pytest.mark.parametrize(
    ("name", "kind", "whole"),
    [
        ("She", "person", "Ada Quill"),
        ("Quill", "person", "Ada Quill"),
        ("Quill", "company", "Quill"),
        ("Ada Mary Quill", "person", "Ada Quill"),
        ("Ida Moor", "person", "Ida Moor"),
    ],
)
def test_what_a_passage_is_about_gets_its_title(name: str, kind: str, whole: str) -> None:
    assert full_name(name, "Ada Quill", kind) == whole


def test_numbers_of_a_text_are_its_years_and_amounts() -> None:
    text = "1,234,567 on 05 Sept. 1948, 20 150-strong, 12.500 m in the 90s, 0700"
    assert numbers(text) == {"1234567", "1948", "150", "12500", "700"}
    assert numbers("Ada Quill, 7") == set()


def test_mentions_are_words_with_a_capital_or_digit() -> None:
    keys = [key for _, _, key in mentions("who runs Norvale Systems")]
    assert "norvale systems" in keys
    assert "who runs" not in keys
