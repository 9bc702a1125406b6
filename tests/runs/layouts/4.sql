CREATE TABLE sets (
    id VARCHAR(12) NOT NULL,
    preset TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES runs (id)
);
CREATE INDEX ix_sets_preset ON sets (preset);
CREATE TABLE set_runs (
    run_id VARCHAR(12) NOT NULL,
    set_id VARCHAR(12) NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id),
    FOREIGN KEY(set_id) REFERENCES sets (id)
);
CREATE INDEX ix_set_runs_set_id ON set_runs (set_id);
