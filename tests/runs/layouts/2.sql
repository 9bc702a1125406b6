CREATE TABLE studies (
    id VARCHAR(12) NOT NULL,
    settings JSON NOT NULL,
    sizes JSON,
    PRIMARY KEY (id),
    FOREIGN KEY(id) REFERENCES runs (id)
);
CREATE TABLE turns (
    run_id VARCHAR(12) NOT NULL,
    study_id VARCHAR(12) NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id),
    FOREIGN KEY(study_id) REFERENCES studies (id)
);
CREATE INDEX ix_turns_study_id ON turns (study_id);
CREATE TABLE trials (
    study_id VARCHAR(12) NOT NULL,
    number INTEGER NOT NULL,
    payload JSON NOT NULL,
    PRIMARY KEY (study_id, number),
    FOREIGN KEY(study_id) REFERENCES studies (id)
);
