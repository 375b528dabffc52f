"""The system calls that sandboxed code may not make, as a BPF program for bubblewrap.

The namespaces, the uid and the lack of capabilities already isolate the sandbox; the filter removes kernel surface
that answering questions never needs: namespaces and mounts, tracing, kernel modules and keys,
io_uring, sockets other than local pairs, descriptors sent over them, and memory that no process is charged for.

Only a control group bounds the memory of several processes. Where there is none, the filter refuses new processes as
well (threads are allowed), so the limit of one process is the limit of all.
"""

from __future__ import annotations

import errno
import functools
import os
import tempfile

from .interface import SandboxUnavailable

_REFUSED = """
mount umount umount2 pivot_root chroot
unshare setns ptrace process_vm_readv process_vm_writev kcmp
bpf perf_event_open userfaultfd seccomp add_key request_key keyctl
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl
open_by_handle_at name_to_handle_at lookup_dcookie fanotify_init fanotify_mark
settimeofday clock_settime clock_adjtime adjtimex stime sethostname setdomainname
iopl ioperm modify_ldt vm86 vm86old syslog vhangup nfsservctl personality uselib ustat sysfs _sysctl
mbind set_mempolicy migrate_pages move_pages
shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
memfd_create remap_file_pages vmsplice splice tee sendfile
io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents
inotify_init inotify_init1 inotify_add_watch setxattr lsetxattr fsetxattr
connect bind listen accept accept4 sendmsg sendmmsg recvmmsg
"""
_NEW_CALLS = range(424, 512)
"""Linux 5.1 and later, the same numbers on every architecture; the C library gets along without them."""
_ALLOWED_NEW_CALLS = (436, 437, 439, 441, 449, 452, 454, 455, 456)
"""close_range, openat2, faccessat2, epoll_pwait2, futex_waitv, fchmodat2, futex_wake, futex_wait, futex_requeue."""
_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_THREAD = 0x00010000
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@functools.cache
def program(processes: bool = True) -> bytes:
    """The compiled filter, with or without new processes. Raises SandboxUnavailable where libseccomp is missing."""
    try:
        import pyseccomp as seccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise SandboxUnavailable(
            f"the sandbox needs a seccomp filter ({error}); install libseccomp2 (Debian, Ubuntu) or libseccomp, "
            "and: pip install 'subquest[web-tools]'"
        ) from None
    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    for name in (*_REFUSED.split(), *(() if processes else ("fork", "vfork"))):
        try:
            number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
        except (OSError, ValueError):
            continue
        if number >= 0:
            rules.add_rule(refuse, name)
    for number in _NEW_CALLS:  # clone3 among them: a filter cannot read its flags; libc then uses clone
        if number not in _ALLOWED_NEW_CALLS:
            rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number)
    for name in ("sync", "syncfs"):  # would write what the whole host has to write
        rules.add_rule(seccomp.ERRNO(0), name)
    for bit in _NAMESPACES:
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, bit, bit))
    if not processes:
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _THREAD, 0))
    for call in ("socket", "socketpair"):
        rules.add_rule(refuse, call, seccomp.Arg(0, seccomp.NE, _AF_UNIX))
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, request))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def as_descriptor(processes: bool = True) -> int:
    """The program in a file of its own, for bubblewrap to read once; the caller closes it."""
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    os.write(descriptor, program(processes))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
