create or replace function changes.announce_schema_change() returns event_trigger
language plpgsql volatile set search_path = '' as $$
begin
  if current_setting('changes.is_silent', true) = 'on' then return; end if;
  if tg_event = 'ddl_command_end' then
    perform from pg_event_trigger_ddl_commands() where schema_name is distinct from 'pg_temp';
  else
    -- An object that depends on a temporary one, such as the rule of a view, does not count as temporary itself.
    perform from pg_event_trigger_dropped_objects() where original and not is_temporary;
  end if;
  if found then
    -- The message is in the order of the changes; the notification is for services that do not read them at the moment.
    perform pg_logical_emit_message(true, 'content_service.schema', tg_tag);
    perform pg_notify('schema_changes', tg_tag);
  end if;
end $$;

comment on function changes.announce_schema_change() is
  'Announces that tables, functions, grants or comments have changed: in the write-ahead log, and on the channel '
  '"schema_changes".';

revoke all on function changes.announce_schema_change() from public;

-- Only a superuser may create event triggers. Other owners run `notify pgrst, 'reload schema'` after a schema change.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    drop event trigger if exists announce_schema_change;
    create event trigger announce_schema_change on ddl_command_end execute function changes.announce_schema_change();
    drop event trigger if exists announce_schema_drop;
    create event trigger announce_schema_drop on sql_drop execute function changes.announce_schema_change();
  else
    raise warning 'this role may not create event triggers: '
      'after each change of the schema run: notify pgrst, ''reload schema''';
  end if;
end $$;
