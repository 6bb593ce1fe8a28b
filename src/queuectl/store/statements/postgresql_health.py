"""What a checkup asks PostgreSQL."""

VERSION = "SELECT current_setting('server_version')"

# What a session begins with: ours may have changed it.
DURABILITY = """
SELECT name, reset_val FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')
"""

READ_ONLY = "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')"

ISOLATION = """
SELECT current_setting('transaction_isolation'), current_setting('default_transaction_isolation')
"""

ROLE = "SELECT current_user"

MAY_USE_SCHEMA = (
    "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = :schema"
)

MISSING_RIGHTS = """
SELECT c.relname, r.name FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (name)
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, r.name)
"""

# Connections that are in use, and how many there may be.
CONNECTIONS = """
SELECT (SELECT sum(numbackends) FROM pg_stat_database),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
"""
