BEGIN TRANSACTION;
CREATE TABLE cells (
	run_id VARCHAR(12) NOT NULL, 
	epsilon DOUBLE NOT NULL, 
	seed BIGINT NOT NULL, 
	metrics JSON NOT NULL, 
	guarantee JSON NOT NULL, 
	seconds DOUBLE NOT NULL, 
	PRIMARY KEY (run_id, epsilon, seed), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "cells" VALUES('25a7e4813d54',1.0,0,'{"AA": 0.08, "AF": 0.325, "BWT": -0.325, "FWT": null, "Last": 0.0, "Avg": 0.4326666666666667}','{"epsilon": 0.9999989102214675, "delta": 1e-05, "unit": "one training example", "adjacency": "add-remove: one example added or removed", "composition": "parallel: every example is in one task only, so the task that spends most counts", "scope": "every classifier released along the stream, one after each task", "claimed_epsilon": 1.0, "noise": "release", "assumptions": ["one list of all labels was public beforehand", "which task an example belongs to depends on that example alone, through a public rule", "the number of training examples is public, and so is the network that computes the features", "the subset of examples was drawn beforehand: what is covered is a place in it"], "not_covered": ["settings chosen by looking at results on the same data (tuning)", "the test examples, taken as public", "a person with examples in several tasks: see the sum for one in every task"], "caveats": ["Only 200 training examples: accuracy is poor and the assumptions are fragile.", "Noise is drawn in floating point and is not hardened against attacks on its last digits.", "The datasets here are public: this is a simulation of what such a release would protect."], "parts": {"task 1": 0.9999989102214675, "task 2": 0.9999989102214675, "task 3": 0.9999989102214675, "task 4": 0.9999989102214675, "task 5": 0.9999989102214675, "the same person in every task": 2.442081954166916}}',3.93232439964776858687e-02);
CREATE TABLE dpcl_layout (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "dpcl_layout" VALUES(1);
CREATE TABLE events (
	run_id VARCHAR(12) NOT NULL, 
	seq INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	at DOUBLE NOT NULL, 
	payload JSON NOT NULL, 
	PRIMARY KEY (run_id, seq), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
)
 WITHOUT ROWID

;
INSERT INTO "events" VALUES('25a7e4813d54',1,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "backbone", "done": 250, "total": 250, "task": null, "text": "computing features with pixels"}');
INSERT INTO "events" VALUES('25a7e4813d54',2,'Started',1.79548703840711331367e+09,'{"event": "Started", "n_tasks": 5, "task_names": ["task 1", "task 2", "task 3", "task 4", "task 5"], "dataset_title": "Handwritten digits (subset: 200 training and 50 test images of 1,797)", "n_train": 200, "n_test": 50}');
INSERT INTO "events" VALUES('25a7e4813d54',3,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "training", "done": 1, "total": 1, "task": 0, "text": "summing features of task 1"}');
INSERT INTO "events" VALUES('25a7e4813d54',4,'TaskLearned',1.79548703840711331367e+09,'{"event": "TaskLearned", "cell": {"epsilon": 1.0, "seed": 0}, "task": 0, "accuracy": [1.0], "pooled": 1.0, "epsilon": 0.9999989102214675}');
INSERT INTO "events" VALUES('25a7e4813d54',5,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "training", "done": 1, "total": 1, "task": 1, "text": "summing features of task 2"}');
INSERT INTO "events" VALUES('25a7e4813d54',6,'TaskLearned',1.79548703840711331367e+09,'{"event": "TaskLearned", "cell": {"epsilon": 1.0, "seed": 0}, "task": 1, "accuracy": [0.9, 0.5], "pooled": 0.7, "epsilon": 0.9999989102214675}');
INSERT INTO "events" VALUES('25a7e4813d54',7,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "training", "done": 1, "total": 1, "task": 2, "text": "summing features of task 3"}');
INSERT INTO "events" VALUES('25a7e4813d54',8,'TaskLearned',1.79548703840711331367e+09,'{"event": "TaskLearned", "cell": {"epsilon": 1.0, "seed": 0}, "task": 2, "accuracy": [0.5, 0.0, 0.2], "pooled": 0.23333333333333334, "epsilon": 0.9999989102214675}');
INSERT INTO "events" VALUES('25a7e4813d54',9,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "training", "done": 1, "total": 1, "task": 3, "text": "summing features of task 4"}');
INSERT INTO "events" VALUES('25a7e4813d54',10,'TaskLearned',1.79548703840711331367e+09,'{"event": "TaskLearned", "cell": {"epsilon": 1.0, "seed": 0}, "task": 3, "accuracy": [0.1, 0.5, 0.0, 0.0], "pooled": 0.15, "epsilon": 0.9999989102214675}');
INSERT INTO "events" VALUES('25a7e4813d54',11,'Progress',1.79548703840711331367e+09,'{"event": "Progress", "phase": "training", "done": 1, "total": 1, "task": 4, "text": "summing features of task 5"}');
INSERT INTO "events" VALUES('25a7e4813d54',12,'TaskLearned',1.79548703840711331367e+09,'{"event": "TaskLearned", "cell": {"epsilon": 1.0, "seed": 0}, "task": 4, "accuracy": [0.0, 0.4, 0.0, 0.0, 0.0], "pooled": 0.08, "epsilon": 0.9999989102214675}');
INSERT INTO "events" VALUES('25a7e4813d54',13,'CellFinished',1.79548703840711331367e+09,'{"event": "CellFinished", "cell": {"epsilon": 1.0, "seed": 0}, "metrics": {"AA": 0.08, "AF": 0.325, "BWT": -0.325, "FWT": null, "Last": 0.0, "Avg": 0.4326666666666667}, "guarantee": {"epsilon": 0.9999989102214675, "delta": 1e-05, "unit": "one training example", "adjacency": "add-remove: one example added or removed", "composition": "parallel: every example is in one task only, so the task that spends most counts", "scope": "every classifier released along the stream, one after each task", "claimed_epsilon": 1.0, "noise": "release", "assumptions": ["one list of all labels was public beforehand", "which task an example belongs to depends on that example alone, through a public rule", "the number of training examples is public, and so is the network that computes the features", "the subset of examples was drawn beforehand: what is covered is a place in it"], "not_covered": ["settings chosen by looking at results on the same data (tuning)", "the test examples, taken as public", "a person with examples in several tasks: see the sum for one in every task"], "caveats": ["Only 200 training examples: accuracy is poor and the assumptions are fragile.", "Noise is drawn in floating point and is not hardened against attacks on its last digits.", "The datasets here are public: this is a simulation of what such a release would protect."], "parts": {"task 1": 0.9999989102214675, "task 2": 0.9999989102214675, "task 3": 0.9999989102214675, "task 4": 0.9999989102214675, "task 5": 0.9999989102214675, "the same person in every task": 2.442081954166916}}, "seconds": 0.039323243996477686}');
CREATE TABLE runs (
	number INTEGER NOT NULL, 
	id VARCHAR(12) NOT NULL, 
	name TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	digest VARCHAR(16) NOT NULL, 
	workload VARCHAR(16) NOT NULL, 
	n_cells INTEGER NOT NULL, 
	device VARCHAR(20) NOT NULL, 
	status VARCHAR(10) NOT NULL, 
	created DOUBLE NOT NULL, 
	started DOUBLE, 
	finished DOUBLE, 
	heartbeat DOUBLE, 
	deleted DOUBLE, 
	machine TEXT, 
	pid INTEGER, 
	ticks BIGINT, 
	error_kind VARCHAR(20), 
	error TEXT, 
	error_log TEXT, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
INSERT INTO "runs" VALUES(1,'25a7e4813d54','digits-cosine','{"method":"cosine","params":{},"data":{"dataset":"digits","train_per_class":20,"test_per_class":5,"backbone":"pixels"},"scenario":{"kind":"class-incremental","tasks":5,"classes_per_task":null},"labels":"prior-const","public_labels":null,"privacy":{"epsilons":[1.0],"delta":0.00001,"adjacency":"add-remove","noise":"release"},"seeds":[0]}','37e512b87cf88b1e','bceb7a6620c0db3c',1,'cpu','finished',1.79548703648410868643e+09,1.79548703648577356343e+09,1.7954870384248728752e+09,1.79548703820551419259e+09,NULL,'computer 00000000-0000-0000-0000-000000000000',21523,6034053,NULL,NULL,NULL);
CREATE INDEX ix_runs_workload ON runs (workload);
CREATE INDEX runs_by_status ON runs (status);
CREATE UNIQUE INDEX one_run_per_device ON runs (device) WHERE status IN ('starting', 'running', 'stopping');
COMMIT;
