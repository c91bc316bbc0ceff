#!/usr/bin/env bash
# Shows: more than a hundred modules of CPython's own test suite give the same result for each test under a small limit
# as unmanaged, and leave no process behind. Those that take 70 MiB and more, or make many processes, have a larger one:
# half of what they take or so.
# Usage: accept/cpython_suite.sh [path-to-uzswap [limit-in-mebibytes [MODULE...]]]
# Takes: an hour for all modules; 200 MiB of memory; needs the `test` package of a CPython, by default that of Debian's
# /usr/bin/python3 (package libpython3.11-testsuite), or PYTHON in the environment. SECONDS_EACH, by default 600, is how
# long a module may take.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-24}
read -ra modules <<<"${*:3}"
((${#modules[@]})) || modules=(
    test_{gc,marshal,pickle,mmap,subprocess,threading,io,signal,os,posix,fork1,json,re,dict,list,set,bytes,unicode,ctypes}
    test_{selectors,resource,faulthandler,array,ast,bigmem,bisect,bufio,builtin,codecs,collections,compile,copy,csv,deque}
    test_{defaultdict,enum,epoll,exceptions,fcntl,fileio,float,functools,generators,grammar,hashlib,heapq,itertools,long}
    test_{math,memoryio,memoryview,ordered_dict,pickletools,pipes,poll,pty,queue,random,select,shutil,sort,struct,sys}
    test_{tempfile,thread,threading_local,traceback,tuple,weakref,zlib,lzma,bz2,wait3,wait4,popen,contextlib,descr}
    test_{zipfile,tarfile,xml_etree,decimal,unicodedata,buffer,embed,repl,atexit,cmd_line,script_helper,shelve,dbm,getpass}
    test_{logging,tracemalloc,sched,socketserver,ftplib,httplib,httpservers,dis,string,iter,slice,range,complex,fractions}
    test_{cmath,statistics,asyncio,concurrent_futures,multiprocessing_fork,multiprocessing_spawn,multiprocessing_forkserver}
)
declare -A larger=([test_asyncio]=100 [test_concurrent_futures]=64 [test_lzma]=100 [test_weakref]=40
    [test_multiprocessing_fork]=128 [test_multiprocessing_spawn]=64 [test_multiprocessing_forkserver]=128)
begin "$@"
suite_python=$(realpath "${PYTHON:-/usr/bin/python3}")
"$suite_python" -c 'import test.support' || die "no test package: apt-get install libpython3.11-testsuite"

export TMPDIR=$work/tmp
mkdir "$TMPDIR"
runs=("$python" "$accept_dir/suite_runs.py")
"${runs[@]}" run "$work/unmanaged" "${SECONDS_EACH:-600}" "$suite_python" "${modules[@]}"
echo "== managed, --memory-max ${limit_mib}M"
limited=()
for module in "${modules[@]}"; do
    at_least=${larger[$module]:-0}
    limited+=("$module=$((at_least > limit_mib ? at_least : limit_mib))")
done
"${runs[@]}" run "$work/managed" "${SECONDS_EACH:-600}" "$suite_python" "${limited[@]}" -- \
    "$uzswap" run --memory-max "{limit}M" --stat-json "$work/managed/{module}.json" --
check "no test's result, no module's status differs, no process is left behind" \
    "${runs[@]}" compare "$work/unmanaged" "$work/managed"
check "pages were swapped out" test "$("${runs[@]}" compare "$work/unmanaged" "$work/managed" | tail -n 1 |
    sed 's/.*zswpout=\([0-9]*\).*/\1/')" -gt 0
verdict
