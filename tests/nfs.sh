#!/usr/bin/env bash
# A whole NFS on this machine, to try a store on: a server and two hosts, each a user-mode Linux with a kernel of its own.
# Everything that it writes lies in FOLDER; the hosts see the files of this machine, but cannot change them. As root.
#   sysctl vm.max_map_count=1000000      as every page of a host is a mapping
#   apt-get install user-mode-linux nfs-kernel-server nfs-common rpcbind iproute2 socat kmod e2fsprogs
#   tests/nfs.sh start FOLDER [OPTIONS]      options of the mount, such as vers=3 or vers=3,nolock (default: vers=4.2)
#   tests/nfs.sh on FOLDER HOST COMMAND      run a command of bash on server, a or b; the export is FOLDER/mnt
#   tests/nfs.sh crash FOLDER HOST           end one at once, as a loss of power would
#   tests/nfs.sh boot FOLDER HOST            start it again
#   tests/nfs.sh stop FOLDER
set -euo pipefail
action=$1 at=$(realpath -m "$2") space=nzc-nfs memory=4000M
declare -A address=([server]=10.77.0.1 [a]=10.77.0.2 [b]=10.77.0.3)

boot() {
    local host=$1 disk=()
    [ "$host" = server ] && disk=(ubd0="$at/disk")
    ip netns exec "$space" setsid linux.uml mem="$memory" root=/dev/root rootfstype=hostfs hostfs=/ ro con=null \
        con0=null,fd:1 "${disk[@]}" umid="$host" uml_dir="$at/" vec0:transport=tap,gro=1,ifname="$host" \
        init="$at/init" -- "$host" "${address[$host]}" "$at" >"$at/$host.log" 2>&1 </dev/null &
    until [ "$(on "$host" "[ -e /run/ready ] && echo ready" 2>/dev/null)" = ready ]; do sleep 1; done
}

on() { # the exit code of the command comes back as the last line
    local answer
    answer=$(printf '%s\n' "(${*:2}) </dev/null; code=\$?; echo; echo \$code" |
        ip netns exec "$space" socat -t 86400 - "TCP:${address[$1]}:23")
    printf '%s' "${answer%$'\n'*}"
    return "${answer##*$'\n'}"
}

start() {
    mkdir -p "$at/mnt" "$at/lib"
    ln -s /usr/lib/uml/modules "$at/lib/modules"
    truncate -s 2G "$at/disk" && mkfs.ext4 -q "$at/disk"
    echo "${1:-vers=4.2}" >"$at/options"
    cat >"$at/init" <<'END'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run
host=$1 address=$2 at=$3
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t tmpfs tmpfs /run
mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm
hostname "$host"
ip link set lo up && ip address add "$address/24" dev vec0 && ip link set vec0 up
modprobe -d "$at" nfsv3 && modprobe -d "$at" nfsv4
mount -t tmpfs tmpfs /var/lib/nfs
if [ "$host" = server ]; then # what it knows of its clients lies on the disk, because a crash must not lose it
    mount /dev/ubda "$at/mnt" && mkdir -p "$at"/mnt/{nfs,data}
    mount --bind "$at/mnt/nfs" /var/lib/nfs && mount --bind "$at/mnt/data" "$at/mnt"
fi
mkdir -p /var/lib/nfs/{rpc_pipefs,sm,sm.bak,nfsdcld} && touch /var/lib/nfs/{etab,rmtab,state}
chown -R statd /var/lib/nfs/{sm,sm.bak,state}
mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
rpcbind -w
if [ "$host" = server ]; then
    modprobe -d "$at" nfsd && mount -t nfsd nfsd /proc/fs/nfsd
    echo 15 >/proc/fs/nfsd/nfsv4leasetime; echo 15 >/proc/fs/nfsd/nfsv4gracetime
    echo 15 >/proc/sys/fs/nfs/nlm_grace_period
    nfsdcld; rpc.statd; sm-notify
    exportfs -i -o rw,no_root_squash,no_subtree_check,fsid=0 "*:$at/mnt"
    rpc.nfsd 8; rpc.mountd
else
    rpc.statd
    options=$(cat "$at/options") export=/
    [[ $options == *vers=3* ]] && export=$at/mnt
    mount -t nfs -o "$options" "10.77.0.1:$export" "$at/mnt"
fi
touch /run/ready
exec socat -t 86400 TCP-LISTEN:23,fork,reuseaddr EXEC:bash,stderr
END
    chmod +x "$at/init"
    ip netns add "$space"
    local inside=(ip -n "$space")
    "${inside[@]}" link set lo up
    "${inside[@]}" link add bridge type bridge
    "${inside[@]}" address add 10.77.0.9/24 dev bridge
    "${inside[@]}" link set bridge up
    for host in server a b; do
        "${inside[@]}" tuntap add "$host" mode tap
        "${inside[@]}" link set dev "$host" master bridge
        "${inside[@]}" link set dev "$host" up
        boot "$host"
    done
}

crash() { kill -KILL -- "-$(ps -o pgid= -p "$(cat "$at/$1/pid")" | tr -d ' ')"; }

stop() {
    for host in a b server; do crash "$host" || true; done
    ip netns delete "$space"
}

"$action" "${@:3}"
