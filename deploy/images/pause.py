"""The pause program: holds a pod's namespaces, 270 bytes of x86_64 machine code without a compiler.

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

CODE: Final = bytes.fromhex(
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
MASK: Final = sum(1 << (number - 1) for number in (SIGINT, SIGTERM, SIGCHLD))


def pause_program() -> bytes:
    """Build the static ELF executable (System V ABI, x86_64): two headers, the code, the signal mask."""
    body = CODE + struct.pack("<Q", MASK)
    size = CODE_OFFSET + len(body)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"),  # 64 bit, little endian, version 1
        2,  # ET_EXEC
        62,  # EM_X86_64
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
