/** Foreign tables whose wrapper has no handler, and the views that read them. */
const UNHANDLED = `array(
    with recursive unhandled as (
      select f.ftrelid as oid from pg_catalog.pg_foreign_table as f
      join pg_catalog.pg_foreign_server as server on server.oid = f.ftserver
      join pg_catalog.pg_foreign_data_wrapper as wrapper on wrapper.oid = server.srvfdw
      where wrapper.fdwhandler = 0
      union
      select rule.ev_class from unhandled
      join pg_catalog.pg_depend as d
        on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = unhandled.oid
        and d.classid = 'pg_catalog.pg_rewrite'::regclass
      join pg_catalog.pg_rewrite as rule on rule.oid = d.objid and rule.ev_type = '1'
    )
    select oid from unhandled
  )`;

/**
 * SQL for the writes that a table or view accepts: bits of `1 << CmdType`, 4 update, 8 insert, 16 delete. The function of Postgres
 * fails for foreign tables whose wrapper has no handler, which accept none.
 */
export const isUpdatable = (oid: string) =>
  `case when ${oid} = any (${UNHANDLED}) then 0 else pg_catalog.pg_relation_is_updatable(${oid}, true) end`;
