import type { ConstraintMessages } from "../errors.ts";

export type ConstraintCommentRow = { readonly key: string; readonly comment: string };

export const CONSTRAINT_COMMENTS = `
  select n.nspname || '.' || t.relname || '.' || named.name as key, named.comment
  from (
    select conrelid as table_id, conname as name, obj_description(oid, 'pg_constraint') as comment from pg_constraint
    union all
    select i.indrelid, c.relname, obj_description(i.indexrelid, 'pg_class')
    from pg_index as i join pg_class as c on c.oid = i.indexrelid
    where i.indisunique
  ) as named
  join pg_class as t on t.oid = named.table_id
  join pg_namespace as n on n.oid = t.relnamespace
  where named.comment is not null
  order by key`;

/** The comments of constraints and unique indexes, without their smart tags: what a client hears when a value breaks them. */
export const constraintMessagesOf = (rows: readonly ConstraintCommentRow[]): ConstraintMessages =>
  new Map(rows.map(({ key, comment }) => [key, withoutSmartTags(comment)] as const).filter(([, text]) => text !== ""));

const withoutSmartTags = (comment: string) => comment.replace(/^@.*$/gm, "").trim();
