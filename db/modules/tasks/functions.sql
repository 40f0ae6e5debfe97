-- For callers. These functions are security definer because no role of the API may access the tables: the functions
-- decide what a caller may see and change. In them, current_user is the owner; the setting `role` is the caller's.

-- Not auth.claims(): another schema auth, such as that of Supabase, does not have it.
create or replace function tasks.claims() returns jsonb
language sql stable set search_path = ''
-- On a reused connection an unset setting reads as '', not as null.
return coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}')::jsonb;

comment on function tasks.claims() is 'The verified claims of the caller''s token; {} for anonymous callers.';

create or replace function tasks.caller() returns text
language sql stable set search_path = ''
return coalesce(tasks.claims() ->> 'sub', tasks.claims() ->> 'identity', current_setting('role'));

comment on function tasks.caller() is $$
The owner of the caller's tasks: the id of the user, the identity of a caller with a token of another issuer, or the
role of any other caller.
$$;

create or replace function tasks.is_visible(task tasks.tasks) returns boolean
language sql stable set search_path = ''
return task.owner = tasks.caller()
  -- A task of an anonymous caller: its id can't be guessed, so anyone who knows it may see the task.
  or (task.owner = task.role and task.role <> 'service_role')
  or exists (
    select from pg_roles
    where rolname = current_setting('role')
      and (pg_has_role(oid, 'admin', 'member') or pg_has_role(oid, 'service_role', 'member'))
  );

comment on function tasks.is_visible(tasks.tasks) is 'Whether the caller may see and cancel the task.';

create or replace function tasks.describe(task tasks.tasks) returns json
language sql stable set search_path = ''
return json_build_object(
  'taskId', task.id,
  'status', task.status,
  'createdAt', task.created_at,
  'startedAt', task.started_at,
  'finishedAt', task.finished_at,
  'estimate', json_build_object('seconds', task.estimate),
  'error', task.error
);

comment on function tasks.describe(tasks.tasks) is 'The task as JSON, without its result.';

create or replace function tasks.estimate(kind text) returns integer
language sql stable set search_path = '' as $$
  select greatest(ceil(avg(latest.seconds)), 1)::integer
  from (
    select extract(epoch from t.finished_at - t.started_at) as seconds
    from tasks.tasks as t
    where t.kind = estimate.kind
      and t.status = 'succeeded'
    order by t.finished_at desc
    limit 20
  ) as latest
$$;

comment on function tasks.estimate(text) is
  'The seconds that a task will take, at least 1: the average of the latest tasks of its kind.';

create or replace function tasks.accept(
  kind text,
  request json,
  max_pending integer,
  address text default null,
  max_running integer default 1000000,
  max_stored_per_client bigint default 9223372036854775807,
  max_stored bigint default 9223372036854775807
) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  task tasks.tasks;
  unfinished bigint;
  latest_round integer;
  own bigint;
  shared bigint;
begin
  task.owner := tasks.caller();
  task.address := accept.address;
  task.claims := tasks.claims();
  task.request := accept.request;
  perform tasks.lock();
  select count(*), max(t.round) into unfinished, latest_round
  from tasks.tasks as t
  where coalesce(t.address, t.owner) = coalesce(task.address, task.owner)
    and t.finished_at is null;
  if unfinished >= max_pending then return null; end if;

  task.bytes := tasks.size_of(task);
  select * into own, shared from tasks.space_for(task.owner, task.address, max_stored_per_client, max_stored);
  if task.bytes > own then return json_build_object('full', 'own'); end if;
  if task.bytes > shared then return json_build_object('full', 'shared'); end if;

  insert into tasks.tasks (owner, role, claims, kind, request, estimate, address, round, bytes)
  values (
    task.owner,
    current_setting('role'),
    task.claims,
    accept.kind,
    accept.request,
    tasks.estimate(accept.kind),
    task.address,
    greatest(latest_round, tasks.current_round(task.owner)) + 1,
    task.bytes
  )
  returning * into task;
  perform tasks.count_bytes(task.owner, task.address, task.bytes);
  perform tasks.give_turns(task.owner, max_running);
  return tasks.describe(task);
end $$;

comment on function tasks.accept(text, json, integer, text, integer, bigint, bigint) is $$
Creates a task of the caller, who is anonymous if `address` is given. Returns null if the client has `max_pending`
unfinished tasks, and `{"full": "own"}` or `{"full": "shared"}` if the task does not fit into the storage of the client
or of several.
$$;

create or replace function tasks.find(id uuid) returns table (task json, part json)
language sql stable security definer set search_path = '' as $$
  select tasks.describe(t), r.part
  from tasks.tasks as t
  left join tasks.results as r on r.task_id = t.id
  where t.id = find.id
    and tasks.is_visible(t)
  order by r.id
$$;

comment on function tasks.find(uuid) is
  'A task that the caller may see: one row for each part of its result, in order, or one row with a null part.';

create or replace function tasks.list(status text, page_size integer, skipped bigint)
returns table (tasks json, total bigint)
language sql stable security definer set search_path = '' as $$
  with page as (
    select t as task, t.created_at, t.id
    from tasks.tasks as t
    where t.owner = tasks.caller()
      and (list.status is null or t.status = list.status)
    order by t.created_at desc, t.id desc
    limit page_size
    offset skipped
  )
  select
    (
      select coalesce(json_agg(tasks.describe(p.task) order by p.created_at desc, p.id desc), '[]')
      from page as p
    ),
    (
      select count(*)
      from tasks.tasks as t
      where t.owner = tasks.caller()
        and (list.status is null or t.status = list.status)
    )
$$;

comment on function tasks.list(text, integer, bigint) is
  'A page of the caller''s own tasks, newest first, and the number of all of them. A null status matches every task.';

create or replace function tasks.cancel(id uuid) returns table (task json, was_cancelled boolean)
language plpgsql volatile security definer set search_path = '' as $$
declare
  found_task tasks.tasks;
begin
  -- If the work is being committed, its transaction has locked the row, and this waits for it.
  select * into found_task
  from tasks.tasks as t
  where t.id = cancel.id
    and tasks.is_visible(t)
  for no key update;
  if not found then return; end if;

  was_cancelled := found_task.finished_at is null;
  if was_cancelled then
    update tasks.tasks as t
    set status = 'cancelled', finished_at = clock_timestamp(), request = null
    where t.id = cancel.id
    returning * into found_task;
    -- Otherwise the worker settles it, when its transaction has ended.
    if not found_task.has_turn then perform tasks.settle(cancel.id); end if;
  end if;
  task := tasks.describe(found_task);
  return next;
end $$;

comment on function tasks.cancel(uuid) is
  'Cancels a task that the caller may see, unless it has ended. A worker that runs it stops within about a second.';

-- For the transaction of the work, which has the caller's identity.

create or replace function tasks.keep_result(task uuid, part json) returns void
language plpgsql volatile strict security definer set search_path = '' as $$
declare
  size constant bigint := octet_length(part::text);
  kept bigint;
  allowed bigint;
  space bigint;
begin
  -- The limits are those of the worker. The caller cannot choose them.
  select (t.limits ->> 'result')::bigint, tasks.space_for(t) into allowed, space
  from tasks.tasks as t
  where t.id = task
    and t.status = 'running'
    and t.role = current_setting('role')
    and t.claims = tasks.claims();
  if not found then
    raise object_not_in_prerequisite_state using message = 'the task is no longer running';
  end if;

  select coalesce(sum(r.bytes), 0) into kept
  from tasks.results as r
  where r.task_id = task;
  if kept + size > allowed then
    raise program_limit_exceeded using message =
      format('the result of the task is larger than %s bytes: request less data at a time', allowed);
  elsif kept + size > space then
    raise sqlstate 'PT429' using message = format(
      'the result of the task is larger than the %s bytes that are left for stored results: '
      'try again when earlier tasks have been deleted',
      space
    );
  end if;
  insert into tasks.results (task_id, part, bytes) values (task, part, size);
end $$;

comment on function tasks.keep_result(uuid, json) is $$
Adds a part to the result of a running task of the caller. Several parts are arrays, and are joined to one.
Raises 54000 if the result is too large, and PT429 if the storage for results is nearly full.
$$;

create or replace function tasks.finish(task uuid, run integer) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  update tasks.tasks as t
  set status = 'succeeded', finished_at = clock_timestamp(), request = null
  where t.id = task
    and t.run = finish.run
    and t.status = 'running'
    and t.role = current_setting('role')
    and t.claims = tasks.claims();
  if not found then
    raise object_not_in_prerequisite_state using message = 'the task is no longer running';
  end if;
end $$;

comment on function tasks.finish(uuid, integer) is $$
Ends a task of the caller, in the transaction of its work. Raises 55000 if the task was cancelled or a later attempt has
begun, so that the work is rolled back.
$$;

-- Security definer: only the owner of the queue may add jobs. The name cannot be that of a job of the service.
create or replace function tasks.run(name text, payload json default '{}') returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform graphile_worker.add_job('app:' || name, payload);
end $$;

comment on function tasks.run(text, json) is $$
Adds a task of the application, which runs after the transaction is committed. Roles other than service_role need a
grant, or call it in a function that is security definer.
$$;

create or replace function tasks.add_mail(id uuid) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- In 12 attempts, the service tries for almost a day.
  perform graphile_worker.add_job(
    'mail', json_build_object('id', id), job_key => 'mail:' || id, max_attempts => 12, priority => -10);
end $$;

comment on function tasks.add_mail(uuid) is
  'Adds the task that sends an e-mail, before all waiting tasks. For the module auth.';
