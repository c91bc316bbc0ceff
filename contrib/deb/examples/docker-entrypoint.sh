#!/bin/sh
# An entrypoint that begins as root, drops root, and then runs the command under a limit. uzswap stands behind the change
# of user: programs of another user than the run's are not managed.
set -eu
if [ "$(id -u)" = 0 ]; then
    chown 1000:1000 /data
    exec setpriv --reuid=1000 --regid=1000 --clear-groups "$0" "$@"
fi
exec uzswap run --memory-max "${MEMORY_MAX:-75%}" --swap /data -- "$@"
