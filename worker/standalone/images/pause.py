"""The pause program: holds a pod's namespaces, some 300 bytes of machine code for each architecture, without a compiler.

`build.py` puts it into the sandbox image. As PID 1 of a pod with a shared PID namespace it must reap orphans, and it
must exit at once on SIGTERM, or every deletion would wait for a grace period. It therefore blocks SIGINT, SIGTERM and
SIGCHLD and receives them synchronously: a blocked signal is queued for PID 1 too (one with the default action is
otherwise never delivered to it), and no handler, stack or library is needed.
"""

import struct
from typing import Final

SIGINT: Final = 2
SIGTERM: Final = 15
SIGCHLD: Final = 17
LOAD_ADDRESS: Final = 0x400000
ELF_HEADER_SIZE: Final = 64
PROGRAM_HEADER_SIZE: Final = 56
CODE_OFFSET: Final = ELF_HEADER_SIZE + 2 * PROGRAM_HEADER_SIZE

AMD64: Final = bytes.fromhex(
    # rt_sigprocmask(SIG_BLOCK, &mask, NULL, 8)
    "488d1d 57000000"  #        lea rbx, [rip + mask]
    "31ff"  #                   xor edi, edi            SIG_BLOCK = 0
    "4889de"  #                 mov rsi, rbx
    "31d2"  #                   xor edx, edx
    "41ba 08000000"  #          mov r10d, 8             sizeof(sigset_t) in the kernel
    "b8 0e000000"  #            mov eax, 14             rt_sigprocmask
    "0f05"  #                   syscall
    # next: signal = rt_sigtimedwait(&mask, NULL, NULL, 8)
    "4889df"  #           next: mov rdi, rbx
    "31f6"  #                   xor esi, esi
    "31d2"  #                   xor edx, edx
    "b8 80000000"  #            mov eax, 128            rt_sigtimedwait
    "0f05"  #                   syscall
    "83f811"  #                 cmp eax, 17             SIGCHLD
    "740f"  #                   je reap
    "85c0"  #                   test eax, eax
    "78e9"  #                   js next                 interrupted: wait again
    # SIGINT or SIGTERM arrived: exit with 0
    "31ff"  #                   xor edi, edi
    "b8 e7000000"  #            mov eax, 231            exit_group
    "0f05"  #                   syscall
    "0f0b"  #                   ud2                     never reached
    # reap: while (wait4(-1, NULL, WNOHANG, NULL) > 0) {}
    "4883cfff"  #         reap: or rdi, -1
    "31f6"  #                   xor esi, esi
    "ba 01000000"  #            mov edx, 1              WNOHANG
    "4d31d2"  #                 xor r10, r10
    "b8 3d000000"  #            mov eax, 61             wait4
    "0f05"  #                   syscall
    "85c0"  #                   test eax, eax
    "7fe7"  #                   jg reap
    "41ba 08000000"  #          mov r10d, 8
    "ebbd"  #                   jmp next
)
ARM64: Final = struct.pack(
    "<30I",
    # rt_sigprocmask(SIG_BLOCK, &mask, NULL, 8)
    0x100003D3,  #        adr x19, mask
    0xD2800000,  #        mov x0, 0               SIG_BLOCK = 0
    0xAA1303E1,  #        mov x1, x19
    0xD2800002,  #        mov x2, 0
    0xD2800103,  #        mov x3, 8               sizeof(sigset_t) in the kernel
    0xD28010E8,  #        mov x8, 135             rt_sigprocmask
    0xD4000001,  #        svc 0
    # next: signal = rt_sigtimedwait(&mask, NULL, NULL, 8)
    0xAA1303E0,  #  next: mov x0, x19
    0xD2800001,  #        mov x1, 0
    0xD2800002,  #        mov x2, 0
    0xD2800103,  #        mov x3, 8
    0xD2801128,  #        mov x8, 137             rt_sigtimedwait
    0xD4000001,  #        svc 0
    0x7100441F,  #        cmp w0, 17              SIGCHLD
    0x540000E0,  #        b.eq reap
    0x7100001F,  #        cmp w0, 0
    0x54FFFEEB,  #        b.lt next               interrupted: wait again
    # SIGINT or SIGTERM arrived: exit with 0
    0xD2800000,  #        mov x0, 0
    0xD2800BC8,  #        mov x8, 94              exit_group
    0xD4000001,  #        svc 0
    0xD4200000,  #        brk 0                   never reached
    # reap: while (wait4(-1, NULL, WNOHANG, NULL) > 0) {}
    0x92800000,  #  reap: mov x0, -1
    0xD2800001,  #        mov x1, 0
    0xD2800022,  #        mov x2, 1               WNOHANG
    0xD2800003,  #        mov x3, 0
    0xD2802088,  #        mov x8, 260             wait4
    0xD4000001,  #        svc 0
    0x7100001F,  #        cmp w0, 0
    0x54FFFF2C,  #        b.gt reap
    0x17FFFFEA,  #        b next
)
CODE: Final = {"amd64": (62, AMD64), "arm64": (183, ARM64)}
"""ELF's number of each architecture (EM_X86_64, EM_AARCH64), by the name that images have, and the code for it."""
MASK: Final = sum(1 << (number - 1) for number in (SIGINT, SIGTERM, SIGCHLD))


def pause_program(architecture: str = "amd64") -> bytes:
    """Build the static ELF executable: two headers, the code, the signal mask. Raises KeyError for an architecture that is not in CODE."""
    machine, code = CODE[architecture]
    body = code + struct.pack("<Q", MASK)
    size = CODE_OFFSET + len(body)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"),  # 64 bit, little endian, version 1
        2,  # ET_EXEC
        machine,
        1,
        LOAD_ADDRESS + CODE_OFFSET,
        ELF_HEADER_SIZE,
        0,
        0,
        ELF_HEADER_SIZE,
        PROGRAM_HEADER_SIZE,
        2,
        0,
        0,
        0,
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, LOAD_ADDRESS, LOAD_ADDRESS, size, size, 0x1000)  # PT_LOAD, read + execute
    stack = struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16)  # PT_GNU_STACK: not executable
    return header + load + stack + body
