"""The supported fields of security contexts; a part of `supported`."""

from typing import Final

from workflows.decide.manifest.fields.field_kinds import Fields, Kind, only, refused, runs

WINDOWS: Final = "this node runs Linux; runAsUser and the fields beside it say here what they say there"
SECCOMP_PROFILE: Final[Fields] = {"type": runs(Kind.STRING), "localhostProfile": runs(Kind.STRING)}
APPARMOR_PROFILE: Final[Fields] = {"type": runs(Kind.STRING), "localhostProfile": runs(Kind.STRING)}
CAPABILITIES: Final[Fields] = {"add": runs(Kind.STRINGS), "drop": runs(Kind.STRINGS)}
SELINUX_OPTIONS: Final[Fields] = {
    "user": runs(Kind.STRING),
    "role": runs(Kind.STRING),
    "type": runs(Kind.STRING),
    "level": runs(Kind.STRING),
}
SYSCTL: Final[Fields] = {"name": runs(Kind.STRING), "value": runs(Kind.STRING)}

SECURITY_CONTEXT: Final[Fields] = {
    "allowPrivilegeEscalation": runs(Kind.BOOLEAN),
    "appArmorProfile": runs(Kind.OBJECT, APPARMOR_PROFILE),
    "capabilities": runs(Kind.OBJECT, CAPABILITIES),
    "privileged": runs(Kind.BOOLEAN),
    "procMount": runs(Kind.STRING),
    "readOnlyRootFilesystem": runs(Kind.BOOLEAN),
    "runAsGroup": runs(Kind.INT64),
    "runAsNonRoot": runs(Kind.BOOLEAN),
    "runAsUser": runs(Kind.INT64),
    "seLinuxOptions": runs(Kind.OBJECT, SELINUX_OPTIONS),
    "seccompProfile": runs(Kind.OBJECT, SECCOMP_PROFILE),
    "windowsOptions": refused(Kind.OBJECT, WINDOWS),
}

POD_SECURITY_CONTEXT: Final[Fields] = {
    "appArmorProfile": runs(Kind.OBJECT, APPARMOR_PROFILE),
    "fsGroup": runs(Kind.INT64),
    "fsGroupChangePolicy": runs(Kind.STRING),
    "runAsGroup": runs(Kind.INT64),
    "runAsNonRoot": runs(Kind.BOOLEAN),
    "runAsUser": runs(Kind.INT64),
    "seLinuxChangePolicy": only(Kind.STRING, "Recursive"),  # the behaviour without the field
    "seLinuxOptions": runs(Kind.OBJECT, SELINUX_OPTIONS),
    "seccompProfile": runs(Kind.OBJECT, SECCOMP_PROFILE),
    "supplementalGroups": runs(Kind.INT64S),
    "supplementalGroupsPolicy": runs(Kind.STRING),
    "sysctls": runs(Kind.OBJECTS, SYSCTL),
    "windowsOptions": refused(Kind.OBJECT, WINDOWS),
}
