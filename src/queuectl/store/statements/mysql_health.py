"""What a checkup asks MariaDB or MySQL."""

VERSION = "SELECT VERSION()"

# The settings that matter, as far as a server has them.
VARIABLES = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite',
    'log_bin', 'sync_binlog', 'read_only', 'super_read_only', 'innodb_read_only',
    'max_connections', 'max_allowed_packet'
)
"""

ISOLATION_IN_MARIADB = "SELECT @@SESSION.tx_isolation, @@GLOBAL.tx_isolation"
ISOLATION_IN_MYSQL = "SELECT @@SESSION.transaction_isolation, @@GLOBAL.transaction_isolation"

USER = "SELECT CURRENT_USER()"

# Whether any table of a queue can be seen.
TABLES_SEEN = """
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE()
    AND LEFT(table_name, CHAR_LENGTH(:prefix)) = :prefix LIMIT 1
"""

# Statements that need a right; TABLE and COLUMN are put in their places. They aren't run, and would
# do nothing if they were.
PROBES = {
    "SELECT": "EXPLAIN SELECT COLUMN FROM TABLE WHERE 1 = 0",
    "INSERT": "EXPLAIN INSERT IGNORE INTO TABLE (COLUMN) SELECT 1 FROM DUAL WHERE 1 = 0",
    "UPDATE": "EXPLAIN UPDATE TABLE SET COLUMN = 1 WHERE 1 = 0",
    "DELETE": "EXPLAIN DELETE FROM TABLE WHERE 1 = 0",
}

CONNECTED = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
