from pathlib import Path

import pytest

from hopsmith.errors import HopsmithError
from hopsmith.settings import load_settings, role_lms
from retrieval.folders import cache_folder


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LM", "MAX_TOKENS", "SLOTS", "ROLE_LM", "PRICE", "API_KEY", "ADAPTER"):
        monkeypatch.delenv(f"HOPSMITH_{name}", raising=False)


def test_flag_goes_before_environment_before_file_before_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_settings().lm == "local"
    Path("hopsmith.toml").write_text('lm = "openai/from-file"\nmax_tokens = 99\n')
    assert load_settings().lm == "openai/from-file"
    monkeypatch.setenv("HOPSMITH_LM", "openai/from-environment")
    assert load_settings().lm == "openai/from-environment"
    assert load_settings(lm="openai/from-flag").lm == "openai/from-flag"
    assert load_settings(lm="openai/from-flag").max_tokens == 99


def test_a_flag_that_was_not_given_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPSMITH_LM", "openai/x")
    assert load_settings(lm=None, seed=None).lm == "openai/x"


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPSMITH_LM", "")
    assert load_settings().lm == "local"


def test_role_lms_come_from_a_table_of_the_file() -> None:
    Path("hopsmith.toml").write_text('[role_lm]\nplanner = "openai/p"\nwriter = "local"\n')
    assert load_settings().role_lm == {"planner": "openai/p", "writer": "local"}


@pytest.mark.parametrize(
    "value", ['{"judge": "openai/j", "planner": "local"}', "judge=openai/j, planner=local"]
)
def test_role_lms_come_from_json_or_pairs_in_the_environment(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSMITH_ROLE_LM", value)
    assert load_settings().role_lm == {"judge": "openai/j", "planner": "local"}


def test_the_cache_folder_of_the_file_is_where_every_room_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSMITH_CACHE", "")
    Path("hopsmith.toml").write_text('cache = "made-once"\n')
    load_settings()
    assert cache_folder() == tmp_path / "made-once"


def test_the_cache_folder_of_the_environment_goes_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSMITH_CACHE", str(tmp_path / "mine"))
    Path("hopsmith.toml").write_text('cache = "made-once"\n')
    load_settings()
    assert cache_folder() == tmp_path / "mine"


def test_spending_limits_come_from_the_file_and_are_positive() -> None:
    Path("hopsmith.toml").write_text("max_calls = 10\nmax_cost = 0.5\n")
    assert (load_settings().max_calls, load_settings().max_cost) == (10, 0.5)
    for bad in ({"max_calls": 0}, {"max_cost": 0}):
        with pytest.raises(HopsmithError, match="--max-c"):
            load_settings(**bad)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("lm = ", "hopsmith.toml"),
        ("slots = 0", "slots"),
        ("lmm = 1", "lmm"),
        ("[", "hopsmith.toml"),
    ],
)
def test_a_bad_file_is_named_in_one_line(text: str, named: str) -> None:
    Path("hopsmith.toml").write_text(text)
    with pytest.raises(HopsmithError, match=named) as raised:
        load_settings()
    assert "\n" not in str(raised.value)
    assert "hopsmith.toml" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOPSMITH_SLOTS", "many"),
        ("HOPSMITH_ADAPTER", "xml"),
        ("HOPSMITH_ROLE_LM", "planner"),
        ("HOPSMITH_ROLE_LM", "{planner: local}"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(HopsmithError, match=f"^{name}: "):
        load_settings()


def test_a_bad_flag_is_named_as_it_is_typed() -> None:
    with pytest.raises(HopsmithError, match=r"--max-tokens"):
        load_settings(max_tokens=1)


def test_price_is_two_numbers() -> None:
    assert load_settings(price="0.4,1.6").price == (0.4, 1.6)
    for bad in ("0.4", "a,b", "1,2,3"):
        with pytest.raises(HopsmithError, match="--price"):
            load_settings(price=bad)


def test_the_key_never_shows() -> None:
    settings = load_settings(api_key="sk-planted")
    assert "sk-planted" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_one_question_at_once_on_one_local_slot_and_more_elsewhere() -> None:
    assert load_settings().at_once == 1
    assert load_settings(lm="openai/x").at_once > 1
    assert load_settings(workers=3).at_once == 3


def test_role_lm_flags_are_pairs() -> None:
    assert role_lms(["planner=local", "judge=openai/gpt-4.1"]) == {
        "planner": "local",
        "judge": "openai/gpt-4.1",
    }
    assert role_lms(None) is None
    with pytest.raises(HopsmithError, match="ROLE=NAME"):
        role_lms(["planner"])
