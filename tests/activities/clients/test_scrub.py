"""Are credentials removed from a runtime's messages?"""

import pytest

from activities.clients.registry_login import Login
from activities.clients.scrub import scrub

CANARY = "canary-7Q"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f'failed to do request: Head "https://user:{CANARY}@r.io/v2/app/manifests/1": EOF',
            'failed to do request: Head "https://***@r.io/v2/app/manifests/1": EOF',
            id="a-user-in-an-address",
        ),
        pytest.param(
            f'Get "https://cdn.io/blob?X-Sig={CANARY}&expires=1": 403',
            'Get "https://cdn.io/blob?X-Sig=***&expires=***": 403',
            id="a-signed-address",
        ),
        pytest.param(
            'Get "https://r.io/token?scope=repository%3Aapp%3Apull&service=r.io": 401',
            'Get "https://r.io/token?scope=repository%3Aapp%3Apull&service=r.io": 401',
            id="what-was-asked-for-stays",
        ),
        pytest.param(f"sent Authorization: Bearer {CANARY}", "sent Authorization: Bearer ***", id="a-header"),
        pytest.param("not found: r.io/app@sha256:0", "not found: r.io/app@sha256:0", id="a-digest-stays"),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    """In addresses, including those of others."""
    assert scrub(text) == expected


def test_a_login_that_a_registry_sends_back() -> None:
    """In every form in which it may be quoted."""
    login = Login(username="foo", password=f'{CANARY} "/+')
    text = "; ".join(login.secrets())
    assert CANARY not in scrub(text, login.secrets())
    assert set(scrub(text, login.secrets())) <= set("*; ")
