"""How the tutorial's output is compared: exactly, but for what the page marks as different in each run."""

from __future__ import annotations

import pytest

from tests.tutorial.page import Step, difference, read_steps


def test_a_page_is_its_bash_blocks_with_the_output_that_follows_directly() -> None:
    page = "Say\n\n```bash\necho a\n```\n\n```text\na\n```\n\n```sh\nnot run\n```\n\n```bash\ntrue\n```\n"
    assert read_steps(page) == [Step(3, "echo a\n", "a\n"), Step(15, "true\n", None)]


def test_output_that_follows_no_command_is_an_error_of_the_page() -> None:
    with pytest.raises(ValueError, match="line 7: this output follows no command"):
        read_steps("```bash\ntrue\n```\n\nProse.\n\n```text\na\n```\n")


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a  b", " a b  "),
        ("up to …, active r2", "up to 08:53:15.240Z, active r2"),
        ("r1 Active …", "r1 Active 17 Running 3s"),
        ("<time> and <time>", "17 and 17"),
        ("6 rows as of <first-read>", "6 rows as of 1794992016909"),
        ("", ""),
    ],
)
def test_marks_stand_for_what_differs_from_run_to_run(shown: str, printed: str) -> None:
    assert difference(shown, printed, {}) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "b"),
        ("a.c", "abc"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("<time> and <time>", "17 and 18"),
        ("<time>\n<time>", "17\n18"),
        ("<time>", "17 18"),
        ("", "a"),
    ],
)
def test_everything_else_must_be_as_shown(shown: str, printed: str) -> None:
    assert difference(shown, printed, {}) is not None


def test_a_word_means_the_same_on_the_whole_page() -> None:
    meanings: dict[str, str] = {}
    assert difference("at <handover>", "at 17", meanings) is None
    assert difference("since <handover>", "since 17", meanings) is None
    assert "was printed:    since 18" in str(difference("since <handover>", "since 18", meanings))
