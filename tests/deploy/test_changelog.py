"""Are the fragments of the changelog well-formed, and gathered by kind into a release's section?"""

from datetime import date
from pathlib import Path

import pytest

from deploy.changelog import CHECKOUT, NoFragment, fragments, read, section, with_release


def test_every_fragment_of_this_checkout_can_be_read() -> None:
    """Before a release needs them."""
    read(fragments(CHECKOUT))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.md", "tempolet is faster now", id="no-kind"),
        pytest.param("a.md", "Improved: tempolet is faster now", id="an-unknown-kind"),
        pytest.param("a.md", "Fixed: one thing.\n\nFixed: another.\n", id="two-paragraphs"),
        pytest.param("a.txt", "Fixed: one thing.", id="no-markdown"),
    ],
)
def test_what_is_no_fragment_is_named(tmp_path: Path, name: str, text: str) -> None:
    """The file, and what a fragment is."""
    (tmp_path / name).write_text(text)
    with pytest.raises(NoFragment, match=rf"changes/{name}: a fragment is"):
        read([tmp_path / name])


def test_a_release_goes_before_the_earlier_ones(tmp_path: Path) -> None:
    """Its changes by kind, each on a line; the words that there was none go with the first."""
    for name, text in (("b.md", "Fixed: a leak\nof memory.\n"), ("a.md", "Added: a command.\n")):
        (tmp_path / name).write_text(text)
    first = section("0.1.0", date(2026, 11, 26), read(sorted(tmp_path.iterdir())))
    assert first == "## 0.1.0 (2026-11-26)\n\n- **Added**: a command.\n- **Fixed**: a leak of memory.\n"
    log = with_release("# Changelog\n\nWhat changed. No release was made yet.\n", first)
    assert log == f"# Changelog\n\nWhat changed.\n\n{first}"
    second = section("0.2.0", date(2027, 1, 1), {"Removed": ["all"]})
    assert with_release(log, second) == f"# Changelog\n\nWhat changed.\n\n{second}\n{first}"
