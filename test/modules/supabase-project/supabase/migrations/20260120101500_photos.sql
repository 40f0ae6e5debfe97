insert into storage.buckets (id, name) values ('photos', 'photos');
create policy "members add photos" on storage.objects for insert to authenticated
  with check (bucket_id = 'photos'); -- storage.foldername is not used

create table harvests (
  id bigint generated always as identity primary key,
  plot_id bigint not null references plots on delete cascade,
  crop text not null
);
alter table harvests enable row level security;
create policy "tenants see harvests" on harvests for select to authenticated using (true);
create function announce_harvest() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform net.http_post('https://garden.example/harvests', to_jsonb(new));
  return new;
end $$;
select cron.schedule('remind', '0 7 * * *', 'select 1');
