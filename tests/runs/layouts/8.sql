ALTER TABLE runs ADD COLUMN seconds DOUBLE;
UPDATE alembic_version SET version_num = '8';
