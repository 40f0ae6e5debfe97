-- Private channels.
grant usage on schema realtime to anon, authenticated, service_role;
grant select, insert (topic, extension) on realtime.messages to anon, authenticated, service_role;

create or replace function realtime.topic() returns text
language sql stable parallel safe
return nullif(pg_catalog.current_setting('realtime.topic', true), '');

comment on function realtime.topic() is 'The name of the channel that a policy on realtime.messages decides about.';

-- security definer: callers who may receive messages need not have the right to send them.
create or replace function realtime.try_message(topic text, extension text) returns uuid
language sql volatile security definer set search_path = '' as $$
  insert into realtime.messages (topic, extension) values (topic, extension) returning id;
$$;

comment on function realtime.try_message(text, text) is
  'Inserts a message as the owner of the table, for realtime.rights_on, which rolls it back.';

create or replace function realtime.rights_on(topic text) returns jsonb
language plpgsql volatile set search_path = '' as $$
declare
  rights jsonb := '{}';
  kind text;
  message uuid;
  may_read boolean;
  may_write boolean;
begin
  perform set_config('realtime.topic', topic, true);
  foreach kind in array array['broadcast', 'presence'] loop
    begin
      message := realtime.try_message(topic, kind);
      may_read := exists (select from realtime.messages as m where m.id = message);
      raise sqlstate 'RT000';
    exception when sqlstate 'RT000' then null;
    end;
    begin
      insert into realtime.messages (topic, extension) values (topic, kind);
      may_write := true;
      raise sqlstate 'RT000';
    exception
      when sqlstate 'RT000' then null;
      when insufficient_privilege then may_write := false;
    end;
    rights := rights || jsonb_build_object(kind, jsonb_build_object('read', may_read, 'write', may_write));
  end loop;
  return rights;
end $$;

comment on function realtime.rights_on(text) is
  'What the caller may do on a private channel: {"broadcast": {"read": …, "write": …}, "presence": {…}}.';

revoke all on function realtime.topic(), realtime.try_message(text, text), realtime.rights_on(text) from public;
grant execute on function realtime.topic(), realtime.try_message(text, text), realtime.rights_on(text)
  to anon, authenticated, service_role;
