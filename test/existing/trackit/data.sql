-- 5 organisations with 4 users, 2 projects and 24 tasks each. User n and project n belong to organisation 1 + n % 5.
insert into public.plans values
  ('free', 'Free', 0, '{tasks}'), ('team', 'Team', 1900, '{tasks,reports}'), ('business', 'Business', 4900, '{tasks,reports,sso}');
insert into public.plan_features (plan_code, feature)
  select code, feature from public.plans, unnest(features) as feature order by code, feature;

insert into public.organisations (id, slug, name, plan, billing_address)
  select format('00000000-0000-4000-a000-%s', lpad(n::text, 12, '0'))::uuid, 'org-' || n, 'Organisation ' || n,
    (array['free', 'team', 'business'])[1 + n % 3], row('Main St ' || n, 'Berlin', '10115', 'DE')::public.address
  from generate_series(1, 5) as n;

insert into public.users (id, email, full_name, bcrypt, settings)
  select format('00000000-0000-4000-b000-%s', lpad(n::text, 12, '0'))::uuid, format('user%s@example.com', n), 'User ' || n,
    '$2a$06$unused', jsonb_build_object('theme', (array['dark', 'light'])[1 + n % 2])
  from generate_series(1, 20) as n;

insert into public.members (organisation_id, user_id, role)
  select format('00000000-0000-4000-a000-%s', lpad((1 + n % 5)::text, 12, '0'))::uuid,
    format('00000000-0000-4000-b000-%s', lpad(n::text, 12, '0'))::uuid,
    (case when n <= 5 then 'owner' when n <= 10 then 'admin' when n > 18 then 'guest' else 'member' end)::public.member_role
  from generate_series(1, 20) as n;

-- Project 10, of organisation 1, is archived.
insert into public.projects (id, organisation_id, key, name, created_by, archived_at)
  select format('00000000-0000-4000-c000-%s', lpad(n::text, 12, '0'))::uuid,
    format('00000000-0000-4000-a000-%s', lpad((1 + n % 5)::text, 12, '0'))::uuid, 'P' || chr(64 + n), 'Project ' || n,
    format('00000000-0000-4000-b000-%s', lpad((5 + n % 5)::text, 12, '0'))::uuid, case when n = 10 then now() end
  from generate_series(1, 10) as n;

insert into public.tasks (
  id, organisation_id, project_id, number, title, body, status, priority, assignee_id, reporter_id, labels, custom, estimate, due,
  created_at
)
  select format('00000000-0000-4000-d000-%s', lpad(n::text, 12, '0'))::uuid, p.organisation_id, p.id, 1 + n / 10,
    format('Task %s %s', n, (array['fix login', 'write report', 'deploy server', 'call customer'])[1 + n % 4]),
    repeat('Lorem ipsum dolor sit amet. ', 1 + n % 8),
    (array['todo', 'in_progress', 'review', 'done', 'cancelled'])[1 + n / 10 % 5]::public.task_status, 1 + n % 5,
    case when n % 7 > 0 then format('00000000-0000-4000-b000-%s', lpad((5 * (1 + n % 3) + n % 5)::text, 12, '0'))::uuid end,
    format('00000000-0000-4000-b000-%s', lpad((5 * (1 + n % 2) + n % 5)::text, 12, '0'))::uuid,
    array[(array['bug', 'feature', 'chore'])[1 + n % 3], 'l' || n % 4],
    jsonb_build_object('points', n % 13, 'sprint', 's' || n % 6), n % 10 * interval '1 hour',
    daterange('2026-11-01'::date + n % 60, '2026-11-03'::date + n % 60), '2026-11-20'::timestamptz - n * interval '1 hour'
  from generate_series(1, 120) as n
  join public.projects as p on p.name = 'Project ' || 1 + (n + 9) % 10;
update public.tasks as t set parent_id = format('00000000-0000-4000-d000-%s', lpad((t.number * 10 - 10)::text, 12, '0'))::uuid
  where t.number between 2 and 4 and t.id::text like '%5';

insert into public.comments (organisation_id, task_id, author_id, body, created_at)
  select t.organisation_id, t.id, t.reporter_id, format('Comment %s on %s', n, t.title), t.created_at + n * interval '1 hour'
  from public.tasks as t, generate_series(1, 2) as n where t.number % 3 = 0;
insert into public.attachments (organisation_id, task_id, file_name, content_type, size_bytes, storage_key, uploaded_by)
  select organisation_id, id, format('file-%s.pdf', number), 'application/pdf', 1000 + number, 'k/' || id, reporter_id
  from public.tasks where number % 4 = 0;
insert into public.invoices (organisation_id, number, status, net_cents, issued_on, due_on)
  select o.id, format('INV-%s-%s', o.slug, n), (array['draft', 'open', 'paid'])[1 + n % 3]::public.invoice_status, n * 1000,
    '2026-11-01', '2026-11-15'
  from public.organisations as o, generate_series(1, 4) as n;
insert into public.task_watchers select id, reporter_id from public.tasks where number % 5 = 0;
insert into public.import_staging values (1, 'first'), (2, 'second');
refresh materialized view public.project_stats;
reset role;
analyze;
