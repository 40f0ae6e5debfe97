-- A removal records its own events.
drop function if exists auth_private.delete_factors(auth.user_id, uuid[]);
drop function if exists auth_private.reset_factor(auth.user_id, uuid);
drop function if exists auth_private.drop_unconfirmed_factors(auth.user_id, inet, timestamptz);
