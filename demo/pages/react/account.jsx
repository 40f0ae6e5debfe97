import { useSyncExternalStore } from "react";
import { register, session, signIn, signOut } from "../session.js";
import { client } from "./client.js";
import { Form } from "./form.jsx";

const subscribe = (listener) => {
  addEventListener("session", listener);
  return () => removeEventListener("session", listener);
};

/** What a user has read must not be shown to the next one. */
async function leave() {
  signOut();
  await client.resetStore();
}

export function Account() {
  const name = useSyncExternalStore(subscribe, () => session()?.user.name);
  if (name)
    return (
      <p>
        Signed in as <strong>{name}</strong>{" "}
        <button type="button" onClick={leave}>
          Sign out
        </button>
      </p>
    );
  return (
    <>
      <Form
        label="Sign in"
        action="Sign in"
        send={signIn}
        fields={{
          username: { label: "Username or e-mail", autoComplete: "username" },
          password: { label: "Password", type: "password", autoComplete: "current-password" },
        }}
      />
      <Form
        label="Register"
        action="Register"
        send={register}
        fields={{
          name: { label: "Name", autoComplete: "name" },
          email: { label: "E-mail", autoComplete: "email" },
          password: { label: "Password", type: "password", autoComplete: "new-password" },
        }}
      />
    </>
  );
}
