-- A project tracker for many tenants. Every key and every foreign key begins with the tenant, as in a sharded database.
-- Tokens have the role at realm.role, the tenant in tenant, and the person in person.
create role planner_owner nologin;
create role "planner_Anonymous" nologin;
create role "planner_Member" nologin;
create role "planner_Manager" nologin in role "planner_Member";
create role "planner_Robot" nologin;
create role "planner_Api" login noinherit password 'secret';
create role planner_feed login replication password 'secret';
grant "planner_Anonymous", "planner_Member", "planner_Manager", "planner_Robot" to "planner_Api";

create schema planner authorization planner_owner;
create schema reports authorization planner_owner;
create schema private authorization planner_owner;
set role planner_owner;

create type planner.issue_kind as enum ('bug', 'task', 'story', 'epic');
create type planner.link_kind as enum ('blocks', 'duplicates', 'relates');
create domain planner.email as text check (value like '%_@_%');

create function private.tenant() returns uuid language sql stable as
$$ select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'tenant')::uuid $$;
create function private.person() returns integer language sql stable as
$$ select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'person')::integer $$;

create table planner.tenants (
  id         uuid primary key default gen_random_uuid(),
  name       text not null,
  domain     text not null unique,
  created_at timestamptz not null default now()
);

create table planner.people (
  tenant_id uuid not null default private.tenant() references planner.tenants on delete cascade,
  id        integer generated always as identity,
  email     planner.email not null,
  name      text not null,
  is_active boolean not null default true,
  primary key (tenant_id, id),
  unique (tenant_id, email)
);

create table planner.projects (
  tenant_id  uuid not null default private.tenant() references planner.tenants on delete cascade,
  key        text not null check (key ~ '^[A-Z]{2,5}$'),
  name       text not null,
  is_private boolean not null default false,
  lead_id    integer,
  starts_on  date,
  ends_on    date,
  days       integer generated always as (ends_on - starts_on) stored,
  primary key (tenant_id, key),
  foreign key (tenant_id, lead_id) references planner.people
);
create index on planner.projects (tenant_id, lead_id);

create table planner.project_members (
  tenant_id   uuid not null default private.tenant(),
  project_key text not null,
  person_id   integer not null,
  primary key (tenant_id, project_key, person_id),
  foreign key (tenant_id, project_key) references planner.projects on update cascade on delete cascade,
  foreign key (tenant_id, person_id) references planner.people on delete cascade
);
create index on planner.project_members (tenant_id, person_id);

create table planner.sprints (
  tenant_id   uuid not null default private.tenant(),
  project_key text not null,
  number      smallint not null,
  goal        text,
  starts_on   date not null,
  is_closed   boolean not null default false,
  primary key (tenant_id, project_key, number),
  foreign key (tenant_id, project_key) references planner.projects on update cascade on delete cascade
);

create table planner.issues (
  tenant_id   uuid not null default private.tenant(),
  project_key text not null,
  number      integer not null,
  kind        planner.issue_kind not null default 'task',
  title       text not null check (char_length(title) between 1 and 200),
  body        text,
  points      numeric(4, 1),
  labels      text[] not null default '{}',
  fields      jsonb not null default '{}',
  is_done     boolean not null default false,
  reporter_id integer not null default private.person(),
  assignee_id integer,
  sprint      smallint,
  epic        integer,
  ref         text generated always as (project_key || '-' || number) stored,
  created_at  timestamptz not null default now(),
  updated_at  timestamptz not null default now(),
  primary key (tenant_id, project_key, number),
  foreign key (tenant_id, project_key) references planner.projects on update cascade on delete cascade,
  constraint issues_reporter_fkey foreign key (tenant_id, reporter_id) references planner.people,
  constraint issues_assignee_fkey foreign key (tenant_id, assignee_id) references planner.people,
  constraint issues_sprint_fkey foreign key (tenant_id, project_key, sprint) references planner.sprints on update cascade,
  constraint issues_epic_fkey foreign key (tenant_id, project_key, epic) references planner.issues on update cascade
);
create index on planner.issues (tenant_id, reporter_id);
create index on planner.issues (tenant_id, assignee_id);
create index on planner.issues (tenant_id, project_key, sprint);
create index on planner.issues (tenant_id, project_key, epic);
create index on planner.issues using gin (labels);
comment on table planner.issues is 'What there is to do.';

create table planner.issue_links (
  tenant_id   uuid not null default private.tenant(),
  from_key    text not null,
  from_number integer not null,
  kind        planner.link_kind not null,
  to_key      text not null,
  to_number   integer not null,
  primary key (tenant_id, from_key, from_number, kind, to_key, to_number),
  constraint issue_links_from_fkey foreign key (tenant_id, from_key, from_number) references planner.issues on update cascade on delete cascade,
  constraint issue_links_to_fkey foreign key (tenant_id, to_key, to_number) references planner.issues on update cascade on delete cascade
);
create index on planner.issue_links (tenant_id, to_key, to_number);

create table planner.comments (
  tenant_id   uuid not null default private.tenant(),
  id          bigint generated always as identity,
  project_key text not null,
  number      integer not null,
  author_id   integer not null default private.person(),
  body        text not null,
  created_at  timestamptz not null default now(),
  primary key (tenant_id, id),
  constraint comments_issue_fkey foreign key (tenant_id, project_key, number) references planner.issues on update cascade on delete cascade,
  constraint comments_author_fkey foreign key (tenant_id, author_id) references planner.people
);
create index on planner.comments (tenant_id, project_key, number);
create index on planner.comments (tenant_id, author_id);
-- Deletions of comments are sent to every open page.
alter table planner.comments replica identity full;

create table planner.worklog (
  tenant_id   uuid not null default private.tenant(),
  person_id   integer not null default private.person(),
  project_key text not null,
  number      integer not null,
  day         date not null default current_date,
  minutes     integer not null check (minutes > 0),
  primary key (tenant_id, person_id, project_key, number, day),
  constraint worklog_person_fkey foreign key (tenant_id, person_id) references planner.people,
  constraint worklog_issue_fkey foreign key (tenant_id, project_key, number) references planner.issues on update cascade on delete cascade
) partition by list (tenant_id);
create index on planner.worklog (tenant_id, project_key, number);
create table private.worklog_1 partition of planner.worklog for values in ('00000000-0000-4000-a000-000000000001');
create table private.worklog_rest partition of planner.worklog default;

-- What robots deliver. It has no key.
create table planner.inbox (
  tenant_id   uuid not null references planner.tenants on delete cascade,
  received_at timestamptz not null default now(),
  payload     jsonb not null
);
create index on planner.inbox (tenant_id);

create function private.is_member(project text) returns boolean language sql stable security definer set search_path = '' as $$
  select exists (
    select from planner.project_members
    where tenant_id = private.tenant() and project_key = project and person_id = private.person()
  )
$$;

create function private.number_issue() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.number is null then
    select coalesce(max(number), 0) + 1 into new.number from planner.issues
    where tenant_id = new.tenant_id and project_key = new.project_key;
  end if;
  return new;
end $$;
create trigger number before insert on planner.issues for each row execute function private.number_issue();
create function private.touch() returns trigger language plpgsql set search_path = '' as
$$ begin new.updated_at := now(); return new; end $$;
create trigger touch before update on planner.issues for each row execute function private.touch();

create function planner.my_issues() returns setof planner.issues language sql stable as $$
  select * from planner.issues where tenant_id = (select private.tenant()) and assignee_id = (select private.person())
  order by project_key, number
$$;
create function planner.finish_issue(project text, issue integer) returns planner.issues language plpgsql set search_path = '' as $$
declare finished planner.issues;
begin
  update planner.issues set is_done = true where project_key = project and number = issue returning * into finished;
  if finished.number is null then raise no_data_found using message = 'no such issue'; end if;
  return finished;
end $$;
create function planner.projects_open_issues(project planner.projects) returns bigint language sql stable as $$
  select count(*) from planner.issues where tenant_id = project.tenant_id and project_key = project.key and not is_done
$$;
create function planner.velocity(project text) returns table (sprint smallint, points numeric) language sql stable as $$
  select sprint, sum(points) from planner.issues where project_key = project and is_done and sprint is not null group by 1 order by 1
$$;

create view reports.burndown with (security_invoker = true) as
  select tenant_id, project_key, sprint, count(*) as issues, count(*) filter (where is_done) as done
  from planner.issues where sprint is not null group by 1, 2, 3;
create view reports.open_bugs with (security_invoker = true) as
  select tenant_id, project_key, number, title, assignee_id from planner.issues where kind = 'bug' and not is_done;

revoke execute on all functions in schema planner, private from public;
grant usage on schema planner, reports, private to "planner_Member";
grant usage on schema planner to "planner_Anonymous", "planner_Robot";
grant usage on schema private to "planner_Robot";
grant execute on function private.tenant, private.person, private.is_member to "planner_Member", "planner_Robot";
grant execute on function planner.my_issues, planner.finish_issue, planner.projects_open_issues, planner.velocity to "planner_Member";
grant select on planner.tenants, planner.people, planner.projects, planner.project_members, planner.sprints, planner.issues,
  planner.issue_links, planner.comments, planner.worklog, reports.burndown, reports.open_bugs to "planner_Member";
grant insert (key, name, is_private, lead_id, starts_on, ends_on), update (name, is_private, lead_id, starts_on, ends_on), delete
  on planner.projects to "planner_Manager";
grant insert, delete on planner.project_members to "planner_Manager";
grant insert, update, delete on planner.sprints to "planner_Manager";
grant insert (email, name), update (name, is_active) on planner.people to "planner_Manager";
grant insert (project_key, kind, title, body, points, labels, fields, assignee_id, sprint, epic),
  update (kind, title, body, points, labels, fields, assignee_id, sprint, epic, is_done), delete on planner.issues to "planner_Member";
grant insert, delete on planner.issue_links to "planner_Member";
grant insert (project_key, number, body), update (body), delete on planner.comments to "planner_Member";
grant insert (project_key, number, day, minutes), update (minutes), delete on planner.worklog to "planner_Member";
grant select, insert on planner.inbox to "planner_Robot";

-- Every row belongs to a tenant. Rows of private projects need membership, except for links, comments and work.
do $$
declare name text;
begin
  foreach name in array array['people', 'projects', 'project_members', 'sprints', 'issues', 'issue_links', 'comments', 'worklog', 'inbox'] loop
    execute format('alter table planner.%I enable row level security', name);
    execute format(
      'create policy "rows of the tenant" on planner.%I using (tenant_id = (select private.tenant())) with check (tenant_id = (select private.tenant()))',
      name);
  end loop;
end $$;
alter table planner.tenants enable row level security;
create policy "people see their tenant" on planner.tenants for select using (id = (select private.tenant()));
create policy "private projects are for members" on planner.projects as restrictive for select
  using (not is_private or private.is_member(key));
create policy "issues of private projects are for members" on planner.issues as restrictive for select
  using (exists (select from planner.projects as p where p.tenant_id = issues.tenant_id and p.key = issues.project_key));
create policy "authors change their comments" on planner.comments as restrictive for update using (author_id = (select private.person()));
create policy "authors delete their comments" on planner.comments as restrictive for delete using (author_id = (select private.person()));

-- 3 tenants with 8 people, 4 projects (the fourth is private), 40 issues each.
insert into planner.tenants values
  ('00000000-0000-4000-a000-000000000001', 'Acme', 'acme.example', '2026-01-01'),
  ('00000000-0000-4000-a000-000000000002', 'Globex', 'globex.example', '2026-02-01'),
  ('00000000-0000-4000-a000-000000000003', 'Initech', 'initech.example', '2026-03-01');
insert into planner.people (tenant_id, email, name)
  select t.id, 'p' || n || '@' || t.domain, 'Person ' || n from planner.tenants as t, generate_series(1, 8) as n order by t.id, n;
insert into planner.projects (tenant_id, key, name, is_private, lead_id, starts_on, ends_on)
  select p.tenant_id, (array['WEB', 'APP', 'OPS', 'HR'])[n], 'Project ' || n, n = 4, p.id, '2026-09-01'::date + n, '2026-12-01'
  from generate_series(1, 4) as n join planner.people as p on p.name = 'Person ' || n;
insert into planner.project_members
  select p.tenant_id, p.key, h.id from planner.projects as p join planner.people as h on h.tenant_id = p.tenant_id where h.id % 4 = length(p.name) % 4 or h.id % 8 < 3;
insert into planner.sprints select tenant_id, key, n, 'Goal ' || n, '2026-10-01'::date + n * 14, n < 3 from planner.projects, generate_series(1, 3) as n;
insert into planner.issues (tenant_id, project_key, number, kind, title, points, labels, fields, is_done, reporter_id, assignee_id, sprint, created_at, updated_at)
  select p.tenant_id, p.key, n, (array['bug', 'task', 'story', 'epic'])[1 + n % 4]::planner.issue_kind, 'Issue ' || n, case when n % 3 > 0 then n * 0.5 end,
    array['area-' || n % 3], jsonb_build_object('browser', 'b' || n % 2), n % 2 = 0,
    r.id, case when n % 5 > 0 then r.id end, case when n % 4 > 0 then 1 + n % 3 end, '2026-11-01'::timestamptz + n * interval '1 hour', '2026-11-02'
  from planner.projects as p, generate_series(1, 10) as n, lateral (select id from planner.people where tenant_id = p.tenant_id order by id offset n % 8 limit 1) as r;
update planner.issues set epic = 3 where number in (5, 6, 9);
insert into planner.issue_links select tenant_id, 'WEB', n, 'blocks', (array['APP', 'HR'])[1 + n % 2], n + 1 from planner.tenants cross join generate_series(1, 6) as n
  cross join lateral (select id as tenant_id) as t;
insert into planner.comments (tenant_id, project_key, number, author_id, body, created_at)
  select tenant_id, project_key, number, reporter_id, 'Comment on ' || ref, created_at from planner.issues where number % 2 = 1 order by 1, 2, 3;
insert into planner.worklog select tenant_id, reporter_id, project_key, number, '2026-11-10', 30 * number from planner.issues where number < 5;
insert into planner.inbox select id, '2026-11-11', '{"kind": "mail"}' from planner.tenants;
reset role;
analyze;
