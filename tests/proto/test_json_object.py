"""Is a damaged file refused in plain words?"""

import pytest

from proto.json_object import NoJsonObject, read_object


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "not JSON: it is empty", id="empty"),
        pytest.param(" \n", "not JSON: it is empty", id="blank"),
        pytest.param("garbage", "not JSON: wrong at line 1, column 1", id="garbage"),
        pytest.param('{"policyName":\n"sta', "not JSON: wrong at line 2, column 1", id="cut-off"),
        pytest.param("[1,2]", "not a JSON object", id="a-list"),
        pytest.param("null", "not a JSON object", id="null"),
        pytest.param('"{}"', "not a JSON object", id="text"),
        pytest.param(
            "[" * 100_000,
            "not JSON that can be read: a number is too long, or too many lists are in each other",
            id="deep",
        ),
        pytest.param(
            '{"a":' + "1" * 5000 + "}",
            "not JSON that can be read: a number is too long, or too many lists are in each other",
            id="a-long-number",
        ),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    """Without a word of Python."""
    with pytest.raises(NoJsonObject) as refused:
        read_object(text)
    assert str(refused.value) == why


def test_an_object() -> None:
    """Is read."""
    assert read_object('{"a": 1}') == {"a": 1}
