#!/usr/bin/env bash
# A whole SLURM on this machine, with accounting, to try sweeps with: everything it writes lies in FOLDER. As root.
#   apt-get install slurm-wlm slurmdbd mariadb-server munge
#   tests/slurm.sh start FOLDER [NODES]     then: export SLURM_CONF=FOLDER/slurm.conf
#   tests/slurm.sh stop FOLDER
# The nodes are slurmds beside each other, with two of the machine's cores each.
set -euo pipefail
action=$1 at=$(realpath -m "$2") nodes=${3:-1}
host=$(hostname -s) auth="AuthType=auth/munge
AuthInfo=socket=$at/munge.socket"

start() {
    mkdir -m 755 -p "$at"
    mkdir -m 700 "$at/munge"
    mkdir -m 755 "$at/state" "$at/spool" "$at/mysql" "$at/run"
    head -c 1024 /dev/urandom >"$at/munge/key" && chmod 400 "$at/munge/key"
    munged --force --socket="$at/munge.socket" --key-file="$at/munge/key" --pid-file="$at/run/munged.pid" \
        --log-file="$at/munge/log" --seed-file="$at/munge/seed"

    chown mysql "$at/mysql"
    mariadb-install-db --no-defaults --user=mysql --datadir="$at/mysql" --auth-root-authentication-method=normal >/dev/null
    setsid mariadbd --no-defaults --user=mysql --datadir="$at/mysql" --socket="$at/mysql/socket" --skip-networking \
        --pid-file="$at/mysql/mariadbd.pid" >"$at/run/mariadbd.log" 2>&1 &
    until [ -S "$at/mysql/socket" ]; do sleep 0.5; done
    until mariadb --no-defaults --socket="$at/mysql/socket" -e "SELECT 1" >/dev/null 2>&1; do sleep 0.5; done

    cat >"$at/slurmdbd.conf" <<END
$auth
DbdHost=$host
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
PidFile=$at/run/slurmdbd.pid
LogFile=$at/run/slurmdbd.log
END
    chmod 600 "$at/slurmdbd.conf"
    cat >"$at/slurm.conf" <<END
ClusterName=nzc
SlurmctldHost=$host
$auth
SlurmUser=root
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool/%n
SlurmctldPidFile=$at/run/slurmctld.pid
SlurmdPidFile=$at/run/slurmd-%n.pid
SlurmctldLogFile=$at/run/slurmctld.log
SlurmdLogFile=$at/run/slurmd-%n.log
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$host
AccountingStoragePass=$at/munge.socket
JobAcctGatherType=jobacct_gather/linux
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SlurmdParameters=config_overrides
$(for n in $(seq "$nodes"); do echo "NodeName=node$n NodeHostname=$host NodeAddr=127.0.0.1 Port=$((17000 + n)) CPUs=2 RealMemory=8000"; done)
PartitionName=all Nodes=ALL Default=YES MaxTime=1:00:00 State=UP
END
    export SLURM_CONF="$at/slurm.conf" MYSQL_UNIX_PORT="$at/mysql/socket"
    setsid slurmdbd -D >"$at/run/slurmdbd.out" 2>&1 &
    until sacctmgr -i show cluster >/dev/null 2>&1; do sleep 0.5; done
    sacctmgr -i add cluster nzc >/dev/null
    slurmctld
    for n in $(seq "$nodes"); do slurmd -N "node$n"; done
    for _ in $(seq 60); do
        [ "$(sinfo -h -t idle -o %D)" = "$nodes" ] && exit 0
        sleep 0.5
    done
    sinfo >&2
    exit 1
}

stop() {
    for pid in "$at"/run/slurmd-*.pid "$at"/run/slurmctld.pid "$at"/run/slurmdbd.pid "$at"/mysql/mariadbd.pid "$at"/run/munged.pid; do
        [ -f "$pid" ] || continue
        number=$(cat "$pid")
        kill "$number" 2>/dev/null || continue
        while kill -0 "$number" 2>/dev/null; do sleep 0.2; done
    done
}

"$action"
