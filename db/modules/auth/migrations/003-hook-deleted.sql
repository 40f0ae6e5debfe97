-- Hooks may be called when an account is deleted.
alter table auth_private.hooks
  drop constraint hooks_point_known,
  add constraint hooks_point_known check (
    point in (
      'before_sign_up', 'new_user', 'after_sign_up', 'after_sign_in', 'new_email', 'new_data', 'deleted', 'claims',
      'send_message', 'users_email'));
