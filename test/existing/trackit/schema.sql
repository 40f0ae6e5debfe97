-- The database of an application that was written without this service. Its roles, keys and rules are its own.
create role trackit_owner nologin;
create role trackit_anon nologin;
create role trackit_user nologin;
create role trackit_support nologin bypassrls;
create role trackit_api login noinherit password 'secret';
create role trackit_feed login replication password 'secret';
grant trackit_anon, trackit_user, trackit_support to trackit_api;

create extension citext;
create extension pg_trgm;
alter schema public owner to trackit_owner;
create schema app_private authorization trackit_owner;
set role trackit_owner;

create type public.member_role as enum ('owner', 'admin', 'member', 'guest');
create type public.task_status as enum ('todo', 'in_progress', 'review', 'done', 'cancelled');
create type public.invoice_status as enum ('draft', 'open', 'paid', 'void');
create domain public.slug as text check (value ~ '^[a-z0-9][a-z0-9-]{1,62}$');
create domain public.money_cents as bigint check (value >= 0);
create type public.address as (street text, city text, zip text, country char(2));

create table public.users (
  id                uuid primary key default gen_random_uuid(),
  email             public.citext not null unique,
  full_name         text not null,
  bcrypt            text not null,
  avatar_url        text,
  settings          jsonb not null default '{}',
  is_active         boolean not null default true,
  email_verified_at timestamptz,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now()
);

create table public.organisations (
  id              uuid primary key default gen_random_uuid(),
  slug            public.slug not null unique,
  name            text not null,
  billing_address public.address,
  plan            text not null default 'free' check (plan in ('free', 'team', 'business')),
  seats           integer not null default 5,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now()
);

create table public.members (
  organisation_id uuid not null references public.organisations on delete cascade,
  user_id         uuid not null references public.users on delete cascade,
  role            public.member_role not null default 'member',
  joined_at       timestamptz not null default now(),
  primary key (organisation_id, user_id)
);
create index on public.members (user_id);

create table public.projects (
  id              uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete cascade,
  key             text not null check (key ~ '^[A-Z]{2,6}$'),
  name            text not null,
  description     text,
  archived_at     timestamptz,
  is_archived     boolean generated always as (archived_at is not null) stored,
  created_by      uuid references public.users on delete set null,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  unique (organisation_id, key)
);
create index on public.projects (created_by);

create table public.tasks (
  id              uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete cascade,
  project_id      uuid not null references public.projects on delete cascade,
  number          integer not null,
  title           text not null check (length(title) between 1 and 300),
  body            text not null default '',
  status          public.task_status not null default 'todo',
  priority        smallint not null default 3 check (priority between 1 and 5),
  assignee_id     uuid references public.users on delete set null,
  reporter_id     uuid references public.users on delete set null,
  parent_id       uuid references public.tasks on delete cascade,
  labels          text[] not null default '{}',
  custom          jsonb not null default '{}',
  estimate        interval,
  due             daterange,
  search          tsvector generated always as (to_tsvector('simple', title || ' ' || body)) stored,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  unique (project_id, number)
);
create index on public.tasks (organisation_id, status);
create index on public.tasks (assignee_id);
create index on public.tasks (reporter_id);
create index on public.tasks (parent_id);
create index on public.tasks using gin (labels);
create index on public.tasks using gin (custom jsonb_path_ops);
create index on public.tasks using gin (search);
create index on public.tasks (created_at);

create table public.comments (
  id              uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete cascade,
  task_id         uuid not null references public.tasks on delete cascade,
  author_id       uuid references public.users on delete set null,
  body            text not null check (length(body) > 0),
  edited          boolean not null default false,
  created_at      timestamptz not null default now()
);
create index on public.comments (task_id, created_at);
create index on public.comments (author_id);

create table public.attachments (
  id              uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete cascade,
  task_id         uuid references public.tasks on delete cascade,
  comment_id      uuid references public.comments on delete cascade,
  file_name       text not null,
  content_type    text not null,
  size_bytes      bigint not null check (size_bytes > 0),
  storage_key     text not null unique,
  sha256          bytea,
  uploaded_by     uuid references public.users on delete set null,
  created_at      timestamptz not null default now(),
  check (num_nonnulls(task_id, comment_id) = 1)
);
create index on public.attachments (task_id);
create index on public.attachments (comment_id);

create table public.invoices (
  id              uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete restrict,
  number          text not null unique,
  status          public.invoice_status not null default 'draft',
  net_cents       public.money_cents not null,
  tax_rate        numeric(5, 4) not null default 0.19,
  gross_cents     bigint generated always as (round(net_cents * (1 + tax_rate))::bigint) stored,
  lines           jsonb not null default '[]',
  issued_on       date,
  due_on          date,
  paid_at         timestamptz,
  created_at      timestamptz not null default now()
);
create index on public.invoices (organisation_id);

create table public.task_watchers (
  task_id uuid not null references public.tasks on delete cascade,
  user_id uuid not null references public.users on delete cascade,
  primary key (task_id, user_id)
);

-- Granted to no caller.
create table public.api_tokens (
  id         uuid primary key default gen_random_uuid(),
  user_id    uuid not null references public.users on delete cascade,
  token_hash bytea not null,
  created_at timestamptz not null default now()
);

-- Every caller reads every row.
create table public.plans (
  code        text primary key,
  title       text not null,
  price_cents public.money_cents not null,
  features    text[] not null default '{}'
);

create table public.plan_features (
  id        integer generated always as identity primary key,
  plan_code text not null references public.plans on delete cascade,
  feature   text not null
);
create index on public.plan_features (plan_code);

create table public.audit_log (
  id              bigint generated always as identity,
  organisation_id uuid,
  actor_id        uuid,
  action          text not null,
  entity          text not null,
  entity_id       uuid,
  diff            jsonb,
  ip              inet,
  at              timestamptz not null default now(),
  primary key (id, at)
) partition by range (at);
create index on public.audit_log (organisation_id, at);
create table public.audit_log_2026_10 partition of public.audit_log for values from ('2026-10-01') to ('2026-11-01');
create table public.audit_log_2026_11 partition of public.audit_log for values from ('2026-11-01') to ('2026-12-01');
create table public.audit_log_default partition of public.audit_log default;

-- Without a key.
create table public.import_staging (line integer not null, title text, is_done boolean not null default false);

create function app_private.current_user_id() returns uuid language sql stable as
$$ select nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid $$;

create function app_private.my_organisations() returns setof uuid language sql stable security definer set search_path = '' as
$$ select organisation_id from public.members where user_id = app_private.current_user_id() $$;

create function app_private.has_role(organisation uuid, variadic roles public.member_role[])
returns boolean language sql stable security definer set search_path = '' as $$
  select exists (
    select from public.members
    where organisation_id = organisation and user_id = app_private.current_user_id() and role = any (roles)
  )
$$;

create function app_private.touch() returns trigger language plpgsql as
$$ begin new.updated_at := now(); return new; end $$;
create trigger touch before update on public.users for each row execute function app_private.touch();
create trigger touch before update on public.organisations for each row execute function app_private.touch();
create trigger touch before update on public.projects for each row execute function app_private.touch();
create trigger touch before update on public.tasks for each row execute function app_private.touch();

create function app_private.number_task() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.number is null then
    select coalesce(max(number), 0) + 1 into new.number from public.tasks where project_id = new.project_id;
  end if;
  select organisation_id into new.organisation_id from public.projects where id = new.project_id;
  return new;
end $$;
create trigger number before insert on public.tasks for each row execute function app_private.number_task();

create function app_private.audit() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into public.audit_log (organisation_id, actor_id, action, entity, entity_id, diff)
  values (
    coalesce(new.organisation_id, old.organisation_id), app_private.current_user_id(), tg_op, tg_table_name,
    coalesce(new.id, old.id), jsonb_build_object('old', to_jsonb(old), 'new', to_jsonb(new))
  );
  return null;
end $$;
create trigger audit after update or delete on public.tasks for each row execute function app_private.audit();

create function public.me() returns public.users language sql stable as
$$ select * from public.users where id = app_private.current_user_id() $$;

create function public.close_task(task_id uuid, comment text default null) returns public.tasks language plpgsql as $$
declare task public.tasks;
begin
  update public.tasks set status = 'done' where id = task_id returning * into task;
  if task.id is null then raise exception 'no such task' using errcode = 'P0002'; end if;
  if comment is not null then
    insert into public.comments (organisation_id, task_id, author_id, body)
    values (task.organisation_id, task.id, app_private.current_user_id(), comment);
  end if;
  return task;
end $$;

create function public.search_tasks(q text) returns setof public.tasks language sql stable as
$$ select * from public.tasks where search @@ websearch_to_tsquery('simple', q) $$;

create function public.tasks_age_days(task public.tasks) returns integer language sql stable as
$$ select extract(day from now() - task.created_at)::integer $$;

create function public.tasks_project_owner(task public.tasks) returns public.users language sql stable as
$$ select u.* from public.projects as p join public.users as u on u.id = p.created_by where p.id = task.project_id $$;

create function public.organisation_stats(organisation uuid)
returns table (status public.task_status, n bigint) language sql stable as
$$ select status, count(*) from public.tasks where organisation_id = organisation group by 1 $$;

create view public.open_tasks with (security_invoker = true) as
  select t.id, t.organisation_id, t.project_id, p.key || '-' || t.number as ref, t.title, t.status, t.assignee_id
  from public.tasks as t
  join public.projects as p on p.id = t.project_id
  where t.status not in ('done', 'cancelled');

-- With the rights of its owner. It filters for itself.
create view public.organisation_billing as
  select organisation_id, sum(gross_cents) filter (where status = 'open') as open_cents, count(*) as invoices
  from public.invoices
  where organisation_id in (select app_private.my_organisations())
  group by 1;

create materialized view public.project_stats as
  select project_id, organisation_id, count(*) as tasks, count(*) filter (where status = 'done') as done
  from public.tasks group by 1, 2;
create unique index on public.project_stats (project_id);
