"""Opening a queue on a server: connecting, its clock, and which schema is there."""

from time import monotonic

from queuectl.address import Address
from queuectl.errors import StoreMissingError, StoreTooOldError
from queuectl.store.administration import Administration
from queuectl.store.database import Database
from queuectl.store.driver import UnsteadyError
from queuectl.store.idiom import Idiom
from queuectl.store.migrate import check_version
from queuectl.store.migrations import current
from queuectl.store.servers import ServerDriver
from queuectl.store.session import pause
from queuectl.store.sqlstore import SqlStore


def open_server(
    address: Address, *, create: bool = False, upgrade: bool = False, any_schema: bool = False
) -> SqlStore:
    """Open the queue on a server; with `any_schema`, whatever tables are there or not."""
    driver, idiom, administration, variables = _assemble(address)
    db = idiom.db
    try:
        _connect(db)
        is_new = False if any_schema else _see_to_schema(db, administration, create, upgrade)
    except BaseException:
        db.close()
        raise
    store = SqlStore(db, idiom, administration, secret_variables=variables, is_new=is_new)
    driver.identify = lambda: store.identity
    return store


def _assemble(
    address: Address,
) -> tuple[ServerDriver, Idiom, Administration, tuple[str, ...]]:
    """Put together what a database brings, and the variables in which its password may be."""
    if address.dialect == "postgresql":
        from queuectl.store.postgresql.administration import PostgresAdministration
        from queuectl.store.postgresql.driver import PostgresDriver
        from queuectl.store.postgresql.idiom import PostgresIdiom

        postgres = PostgresDriver(address)
        db = Database(postgres)
        variables: tuple[str, ...] = ("PGPASSWORD", "PGSSLPASSWORD")
        return postgres, PostgresIdiom(db), PostgresAdministration(db, postgres), variables
    from queuectl.store.mysql.administration import MysqlAdministration
    from queuectl.store.mysql.driver import MysqlDriver
    from queuectl.store.mysql.idiom import MysqlIdiom

    mysql = MysqlDriver(address)
    db = Database(mysql)
    return mysql, MysqlIdiom(db, mysql), MysqlAdministration(db, mysql), ("MYSQL_PWD",)


def _connect(db: Database) -> None:
    """Connect; nobody there is an error at once, but one that is about to be there isn't."""
    deadline = monotonic() + db.patience
    with db.session() as session:
        while True:
            try:
                session.connect()
            except UnsteadyError:
                if monotonic() >= deadline:
                    raise
                pause()
            else:
                break
        session.read_clock()


def _see_to_schema(
    db: Database, administration: Administration, create: bool, upgrade: bool
) -> bool:
    """Make the schema, or see that it is the one we speak; True if it was made."""
    url = db.driver.url
    # Tables without a version are still being made, or somebody was cut off making them.
    version = administration.schema_version() or None
    if version is not None:
        check_version(url, version)
    if version == current() or (upgrade and version is not None):
        return False
    if version is None and create:
        # Somebody may have been faster.
        return administration.migrate()[0] == 0
    if version is None:
        raise StoreMissingError(
            f"There is no queue at {url} yet.", advice="`queuectl db init` makes it."
        )
    raise StoreTooOldError(
        f"The queue at {url} has schema {version}, this queuectl needs {current()}.",
        advice="run `queuectl db migrate` first.",
    )
