"""Tables of inputs for trials/fuzz.py: values, overrides that do not fit together, and YAML files."""

#: Overrides without tracking and figures; with votes from a file; with teachers and student of seconds; with arrays.
QUIET = ["recipe=papers", "tracking=none", "figures=false"]
VOTES = ["teachers=votes", "teachers.path=votes.npy", "dataset=none", "student=none", *QUIET]
PLAIN = ["trainer.accelerator=cpu", "trainer.progress=false", *QUIET]
ARRAYS = ["dataset=npz", "dataset.path=data.npz", "teachers.count=3", "teachers.epochs=1", "student.steps=3", *PLAIN]


def quoted(text: str) -> str:
    """Return the text in quotes, as Hydra reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


#: Values that hardly any key accepts, as they are typed on the command line.
VALUES = [
    *("null", "nan", "inf", "-inf", "-1", "0", "1", "2.5", "1e308", "-1e308", "1e-320", "1e400", "true", "abc", "''"),
    *("9" * 400, "-" + "9" * 5000, "1e-400", "10**9", "0x10", "1_000", "١٢٣", "???", "[]", "{}", "[null]", "[[]]"),
    *("{a: {b: [1, 2]}}", "[1,[2,{a: b}]]", "{_target_: os.getcwd}", "{_target_: no.such.thing}", "[1,2,3]", "1,2"),
    *("${nothing}", "${oc.env:NO}", "${aggregator}", "${seed}", "${oc.env:HOME}", "${hydra:run.dir}", "${", "$x", "~"),
    *(".", "..", "/", "missing/file", "/dev/null", "/proc/x", "/proc/self/mem", "votes.npy", "votes.npy/x"),
    *(
        quoted(text)
        for text in ("a" * 10_000, "a" * 300, "שלום‏", "e\u0301" * 20, "🦊" * 50, "line\nbreak", "\t", "\x1b[31m")
    ),
    *(quoted(text) for text in ("%s %d {}", "../../x", "C:\\x", "'", '"', "\u2028", "\x85", "a\rb", "null", "1")),
    "\udcff\udcfe",  # bytes that are not UTF-8
]
#: Overrides that do not fit together, or that are extreme: added to VOTES, one line per input.
WITH_VOTES = """
student=supervised
rounds=[10,10] queries=5
rounds=[30,0]
rounds=40
rounds=[]
rounds=2
query_choice=entropy
aggregator=ground_truth
aggregator=interactive
aggregator=interactive aggregator.first=null
aggregator=interactive aggregator.first=3
aggregator._target_=nzc.LNMax
aggregator._target_=nzc.mechanisms.NoisyArgmax
aggregator._target_=nzc.run
aggregator._target_=null
budget.epsilon=1 aggregator=plurality
budget.epsilon=1e-300
rng=system
rng=system budget.epsilon=3 audit=true audit_trials=100
rng=dice
audit=true audit_trials=100
audit=true audit_trials=1
audit=true aggregator=plurality audit_trials=100
sanitise.order=1.0000000001
sanitise.order=1e300 sanitise.beta=1e-300
delta=1e-320
delta=0.9999999999999999
aggregator.sigma=1e308
aggregator.sigma=1e-308
aggregator=lnmax aggregator.gamma=1e308
aggregator=nzc aggregator.c=1e308 aggregator.sensitivity=smooth aggregator.beta=1e308
aggregator=confident aggregator.threshold=-1e308
objective=no
objective=[1,2]
hydra.run.dir=. seed=-1
hydra.run.dir=conf seed=-1
hydra.run.dir=.
hydra.run.dir=outputs delta=2
--multirun objective=no
--multirun aggregator.sigma=-1,abc
--multirun seed=
--multirun seed=1,2 rng=dice
"""
#: The same, added to ARRAYS.
WITH_ARRAYS = """
dataset=none
teachers=votes teachers.path=votes.npy
query_choice=entropy queries=3
aggregator=interactive
aggregator=interactive rounds=2 queries=6
teachers.count=91
teachers.count=63 teachers.stratify=true
student.batch_size=10**6
student.folds=50
student.folds=2 queries=1
student.validation=0.999
student.validation=0.5 queries=1
teachers.network=cnn
student.network=resnet32
student.network=gan
student=gan_ssl student.network=mlp
student=gan_ssl student.network=gan_conv
dataset.private=0.9 dataset.public=0.2
dataset.private=0
dataset.suits=3
trainer.precision=16-true
trainer.accelerator=gpu
trainer.accelerator=tpu
trainer.precision=64-true
trainer.num_nodes=2
trainer.threads=0
+trainer.max_steps=0
+trainer.fast_dev_run=true
+trainer.max_time=x
+trainer.max_epochs=2
+trainer.logger=true
+trainer.callbacks=x
+trainer.limit_train_batches=0
trainer.devices=0
+trainer.enable_progress_bar=true
+trainer.gradient_clip_val=-1
+trainer.default_root_dir=/proc/x
+trainer.overfit_batches=1
+trainer.profiler=simple
+trainer.enable_checkpointing=true
dataset.augment.rotate=5
student=vat student.unlabelled=1
student=softmatch student.unlabelled=10**5
teachers.lr=1e308
student.lr=1e308
student.weight_decay=1e308
student.wrong=0.999
student.label_noise_rate=0.999
student.labeled_loss_decay=0.001
+student.fade=0.5
aggregator=confident aggregator.threshold=1e9
teachers.batch_size=10**9
teachers.parallel=10**6
teachers.stacked=true
paths.store=outputs
paths.output=.nzc
paths.store=votes.npy
paths.output=data.npz
rng=system
teachers=sklearn teachers.estimator.n_estimators=0
teachers=sklearn teachers.estimator._target_=builtins.dict
teachers=sklearn +teachers.estimator.C=1
teachers=sklearn teachers.estimator=null
"""
#: Arguments of the subcommands.
SUBCOMMANDS = """
publish
publish outputs
publish outputs copy
publish missing copy
publish conf conf
publish votes.npy copy
publish --no
report
report .
report missing
report votes.npy
report outputs .nzc
store
store --root .
store --root missing
store --root votes.npy
store --root conf --all
store --root conf --all --yes
store --root conf --prune a
store --root conf --prune --yes
store --root conf --older -1 --yes
store --root conf --older nan --yes
store --root conf --older x
store --root conf --older 1 --all
store --root conf --delta 2
store --root conf --delta 0
sync
sync .
sync missing
sync conf --uri x
sync . --uri sqlite:///votes.npy
sync --artifacts
"""
#: What a YAML file may contain.
YAML = [
    "", "a", "[", "{", "\t- x", "- a\n- b", "sweep: 1", "sweep: [1]", "sweep: {rows: 1}", "sweep: {rows: [1]}",
    "sweep: {rows: [{}]}", "sweep: {rows: [{name: a}]}", "sweep: {rows: [{name: 1, set: 3}]}",
    "sweep: {rows: [{name: a, set: [3]}]}", "a: &a [*a]", "sweep: {rows: [{name: a, set: ['seed=1']}], figures: 3}",
    "sweep: {rows: [{name: a, set: ['seed=']}], figures: [3]}", "sweep: {rows: [{name: a, set: ['sed=1']}]}",
    "sweep: {rows: [{name: a, set: 'seed=1'}]}", "sweep: {rows: {a: b}}",
    "sweep: {figures: [{name: a, x: seed, y: nothing}]}", "sweep: {figures: [{name: '../../x', x: seed, y: queries}]}",
    "sweep: {figures: [{name: a, x: seed, y: 3}]}", "sweep: {figures: [{name: a, x: [1], y: queries}]}",
    "sweep: {figures: {}}", "sweep: {figures: [{name: a, curve: no}]}",
    "sweep: {figures: [{name: a, x: seed, y: queries, ylim: [nan, 1]}]}", "sweep: {only: 3}",
    "sweep: {rows: [{name: a, set: ['seed=1'], printed: 3}]}", "sweep: {rows: [{name: [a], set: []}]}",
    "sweep: {rows: [{name: a, set: ['seed=1'], paper: 3}]}", "sweep: {rows: [{name: a, set: [], paper: {no: x}}]}",
    "sweep: {rows: [{name: a, set: [null]}]}", "sweep: {rows: [{name: null, set: []}]}", "sweep: ${nothing}",
    "sweep: ???", "defaults: [nothing]", "defaults: 3", "defaults: [/aggregator: no]",
    "defaults: [{override /aggregator: [a, b]}]", "seed: abc", "unknown: 1", "seed: 1\nseed: 2", "? [a, b]\n: c",
    "!!python/object/apply:os.system ['touch PAYLOAD']", "--- 1\n--- 2", "1: 2", "\x00", "\ufeffseed: 1",
    "seed: 1\n\xa0x", "seed: " + "9" * 5000, "null: null", "true: false", "seed: 2020-01-01",
    "_target_: nzc.GNMax", "_target_: nzc.GNMax\nsigma: [1]", "_target_: nzc.GNMax\nsigma: 5\nmore: 1",
    "_target_: nzc.NoisyArgmax", "_target_: nzc.NoisyArgmax\nnoise: 3",
    "_target_: nzc.NoisyArgmax\nnoise: {_target_: nzc.GaussianNoise, sigma: -1}",
    "_target_: nzc.NoisyArgmax\nnoise: {_target_: nzc.GaussianNoise, sigma: 5}\nscreen: {_target_: nzc.Boost}",
    "_target_: 3", "_target_: null", "_target_: [1]", "_target_: nzc", "_target_: nzc.no", "_target_: os.getcwd",
    "_target_: builtins.dict", "_target_: nzc.GNMax\n_args_: 3", "_target_: nzc.GNMax\n_partial_: true\nsigma: 5",
    "mechanism: {_target_: nzc.mechanisms.NoisyArgmax}", "mechanism: 3", "hydra: {run: {dir: x}}",
    "hydra: 3", "# @package nothing\na: 1", "# @package _global_\nseed: -1", "# @package _global_\nsed: 1",
    "a: '" + "x" * 10**6 + "'", "{" * 200, "[" * 2000,
]  # fmt: skip
