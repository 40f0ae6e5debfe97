-- Private channels.
grant usage on schema realtime to anon, authenticated, service_role;
grant select, insert (topic, extension) on realtime.messages to anon, authenticated, service_role;
-- For realtime.send, which anon may not call.
grant insert (id, event, payload, binary_payload, private) on realtime.messages to authenticated, service_role;

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
  'What the caller may do on a private channel: {"broadcast": {"read": ..., "write": ...}, "presence": {...}}.';

create or replace function realtime.send_message(content jsonb, event text, topic text, private boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare
  -- A payload of NOTIFY has less than 8000 bytes, and a character at most 4.
  max_characters constant int := 1900;
  max_bytes constant int := 262144;
  id constant uuid := pg_catalog.gen_random_uuid();
  message constant text :=
    content || pg_catalog.jsonb_build_object('topic', topic, 'event', event, 'private', private);
  parts constant int := pg_catalog.ceil(pg_catalog.length(message)::numeric / max_characters);
begin
  if topic is null or topic = '' or pg_catalog.octet_length(topic) > 246 then
    raise invalid_parameter_value using message = 'the topic must have 1 to 246 bytes';
  elsif event is null or pg_catalog.octet_length(event) > 255 then
    raise invalid_parameter_value using message = 'the event must have at most 255 bytes';
  elsif private is null then
    raise invalid_parameter_value using message = 'private must be true or false';
  elsif pg_catalog.octet_length(message) > max_bytes then
    raise program_limit_exceeded using message = pg_catalog.format('a broadcast has at most %s bytes', max_bytes);
  end if;
  if private then
    perform pg_catalog.set_config('realtime.topic', topic, true);
    begin
      insert into realtime.messages (id, topic, extension, event, payload, binary_payload, private)
      values (
        id, topic, 'broadcast', event, content -> 'payload', pg_catalog.decode(content ->> 'base64', 'base64'), true
      );
    exception when insufficient_privilege then
      raise insufficient_privilege using
        message = pg_catalog.format('You do not have permissions to write to this Channel topic: %s', topic);
    end;
  end if;
  -- Those of one transaction arrive together, when it is committed. The id keeps equal ones apart.
  for part in 1 .. parts loop
    perform pg_catalog.pg_notify('broadcasts', pg_catalog.format(
      '%s %s %s %s', id, part, parts, pg_catalog.substr(message, (part - 1) * max_characters + 1, max_characters)
    ));
  end loop;
end $$;

comment on function realtime.send_message(jsonb, text, text, boolean) is
  'Sends a broadcast for realtime.send and realtime.send_binary, and stores it if it is private. Raises 54000 beyond '
  '256 kB.';

create or replace function realtime.replay(topic text, since timestamptz, max_count integer)
returns table (id uuid, event text, payload jsonb, binary_payload bytea, inserted_at timestamptz)
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_catalog.set_config('realtime.topic', topic, true);
  return query
    select m.id, m.event, m.payload, m.binary_payload, m.inserted_at
    from realtime.messages as m
    where m.topic = replay.topic and m.private and m.extension = 'broadcast'
      and m.inserted_at >= greatest(since, pg_catalog.now() - interval '72 hours')
    order by m.inserted_at desc
    limit max_count;
end $$;

comment on function realtime.replay(text, timestamptz, integer) is
  'The last broadcasts of a private channel that are kept and that the caller may read, newest first.';

-- security definer: no role may delete messages.
create or replace function realtime.purge() returns void
language sql volatile security definer set search_path = '' as $$
  delete from realtime.messages as m where m.private and m.inserted_at < pg_catalog.now() - interval '72 hours';
$$;

comment on function realtime.purge() is 'Deletes the broadcasts that are no longer kept.';

create or replace function realtime.send(payload jsonb, event text, topic text, private boolean default true)
returns void
language sql volatile set search_path = '' as $$
  select realtime.send_message(
    pg_catalog.jsonb_build_object('payload', coalesce(payload, '{}')), event, topic, private
  );
$$;

comment on function realtime.send(jsonb, text, text, boolean) is
  'Sends a broadcast to the channels of a topic, when the transaction is committed. On a private channel, the policies '
  'for insert on realtime.messages decide whether the caller may. Raises 54000 beyond 256 kB.';

create or replace function realtime.send_binary(payload bytea, event text, topic text, private boolean default true)
returns void
language sql volatile set search_path = '' as $$
  select realtime.send_message(
    pg_catalog.jsonb_build_object(
      'base64', pg_catalog.translate(pg_catalog.encode(coalesce(payload, ''), 'base64'), E'\n', '')
    ),
    event, topic, private
  );
$$;

comment on function realtime.send_binary(bytea, text, text, boolean) is
  'Sends bytes as realtime.send does JSON, at most 192 kB. Clients of version 1.0.0 of the protocol do not get them.';

create or replace function realtime.broadcast_changes(
  topic_name text,
  event_name text,
  operation text,
  table_name text,
  table_schema text,
  new record,
  old record,
  level text default 'ROW'
) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if level = 'STATEMENT' then
    raise invalid_parameter_value using message = 'broadcast_changes is for triggers for each row';
  end if;
  perform realtime.send(
    pg_catalog.jsonb_build_object(
      'old_record', old, 'record', new, 'operation', operation, 'table', table_name, 'schema', table_schema
    ),
    event_name,
    topic_name
  );
end $$;

comment on function realtime.broadcast_changes(text, text, text, text, text, record, record, text) is
  'Sends the change of a row as a broadcast on a private channel, from a trigger, with the payload '
  '{record, old_record, operation, table, schema}.';

revoke all on function realtime.send(jsonb, text, text, boolean), realtime.send_binary(bytea, text, text, boolean),
  realtime.send_message(jsonb, text, text, boolean),
  realtime.broadcast_changes(text, text, text, text, text, record, record, text) from public;
-- Not anon: a function or trigger of yours decides what callers without an account send.
grant execute on function realtime.send(jsonb, text, text, boolean), realtime.send_binary(bytea, text, text, boolean),
  realtime.send_message(jsonb, text, text, boolean),
  realtime.broadcast_changes(text, text, text, text, text, record, record, text) to authenticated, service_role;
revoke all on function realtime.topic(), realtime.try_message(text, text), realtime.rights_on(text),
  realtime.replay(text, timestamptz, integer), realtime.purge() from public;
grant execute on function realtime.topic(), realtime.try_message(text, text), realtime.rights_on(text),
  realtime.replay(text, timestamptz, integer) to anon, authenticated, service_role;
grant execute on function realtime.purge() to service_role;
