insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, raw_user_meta_data,
  raw_app_meta_data, confirmation_token)
values ('00000000-0000-0000-0000-000000000000', '00000000-0000-4000-8000-000000000001', 'authenticated', 'authenticated',
  'ada@garden.example', crypt('Potatoes-1', gen_salt('bf', 4)), now(), '{"full_name": "Ada Lovelace"}',
  '{"provider": "email", "providers": ["email"], "plan": "pro"}', '');
insert into auth.identities (id, provider_id, user_id, identity_data, provider)
values (gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000001', '{}', 'email');
insert into plots (name, tenant_id) values ('By the pond', '00000000-0000-4000-8000-000000000001'), ('Under the oak', null);
