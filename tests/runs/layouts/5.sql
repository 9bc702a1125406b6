DROP TABLE dpcl_layout;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE classifiers (
    run_id VARCHAR(12) NOT NULL,
    epsilon DOUBLE NOT NULL,
    seed BIGINT NOT NULL,
    task INTEGER NOT NULL,
    about JSON NOT NULL,
    arrays BLOB NOT NULL,
    PRIMARY KEY (run_id, epsilon, seed, task),
    FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE rooms (
    code VARCHAR(6) NOT NULL,
    owner VARCHAR(64) NOT NULL,
    title TEXT NOT NULL,
    created DOUBLE NOT NULL,
    ends DOUBLE NOT NULL,
    poll JSON,
    shown_run VARCHAR(12),
    PRIMARY KEY (code)
);
CREATE TABLE members (
    room VARCHAR(6) NOT NULL,
    token VARCHAR(64) NOT NULL,
    name VARCHAR(40) NOT NULL,
    PRIMARY KEY (room, token),
    CONSTRAINT one_name_per_room UNIQUE (room, name),
    FOREIGN KEY(room) REFERENCES rooms (code) ON DELETE CASCADE
);
CREATE TABLE votes (
    room VARCHAR(6) NOT NULL,
    poll VARCHAR(12) NOT NULL,
    token VARCHAR(64) NOT NULL,
    choice INTEGER NOT NULL,
    PRIMARY KEY (room, poll, token),
    FOREIGN KEY(room) REFERENCES rooms (code) ON DELETE CASCADE
);
CREATE TABLE room_runs (
    run_id VARCHAR(12) NOT NULL,
    room VARCHAR(6) NOT NULL,
    name VARCHAR(40) NOT NULL,
    PRIMARY KEY (run_id),
    FOREIGN KEY(run_id) REFERENCES runs (id),
    FOREIGN KEY(room) REFERENCES rooms (code) ON DELETE CASCADE
);
CREATE INDEX ix_room_runs_room ON room_runs (room);
INSERT INTO alembic_version (version_num) VALUES ('5');
