import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { forgotPassword, onSession, register, session, signIn, signOut, type User } from "../live/session.ts";
import { Form } from "./form.tsx";
import { messageOf } from "./model.ts";

/** The user of this browser, or null. */
export const useUser = (): User | null => useSyncExternalStore(onSession, session)?.user ?? null;

/** A dialog of the browser: it takes the focus, gives it back, and closes with Escape. */
export function Dialog({ label, close, children }: { label: string; close(): void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-label={label} onClose={close}>
      <section>
        <h2>{label}</h2>
        {children}
        <div className="row">
          <button type="button" onClick={() => dialog.current!.close()}>
            Close
          </button>
        </div>
      </section>
    </dialog>
  );
}

const PASSWORD = { label: "Password", type: "password" } as const;
const EMAIL = { label: "E-mail", type: "email", autoComplete: "email" } as const;

/** Who is signed in, and the dialogs to sign in, register, and reset a password. */
export function Account() {
  const user = useUser();
  const [open, setOpen] = useState<"Sign in" | "Register" | "Reset your password" | null>(null);
  const [sent, setSent] = useState("");
  const [fault, setFault] = useState("");
  const close = () => {
    setOpen(null);
    setSent("");
  };
  const leave = () => {
    setFault("");
    signOut().catch((error) => setFault(messageOf(error)));
  };
  if (user !== null)
    return (
      <div className="row">
        <span>
          Signed in as <strong>{user.name}</strong>
        </span>
        <button type="button" onClick={leave}>
          Sign out
        </button>
      </div>
    );
  return (
    <div className="row">
      <p role="alert">{fault}</p>
      <button type="button" onClick={() => setOpen("Sign in")}>
        Sign in
      </button>
      <button type="button" onClick={() => setOpen("Register")}>
        Register
      </button>
      {open === "Sign in" && (
        <Dialog key={open} label={open} close={close}>
          <Form
            label={open}
            actions={["Sign in"]}
            send={({ username = "", password = "" }) => signIn({ username, password }).then(close)}
            fields={{
              username: { label: "Username or e-mail", autoComplete: "username" },
              password: { ...PASSWORD, autoComplete: "current-password" },
            }}
          />
          <button type="button" className="link" onClick={() => setOpen("Reset your password")}>
            Forgot your password?
          </button>
        </Dialog>
      )}
      {open === "Register" && (
        <Dialog key={open} label={open} close={close}>
          <Form
            label={open}
            actions={["Register"]}
            send={async ({ name = "", email = "", password = "" }) => {
              const message = await register({ name, email, password });
              if (message === undefined) close();
              else setSent(message);
            }}
            fields={{
              name: { label: "Name", autoComplete: "name" },
              email: EMAIL,
              password: { ...PASSWORD, autoComplete: "new-password" },
            }}
          />
          <p role="status">{sent}</p>
        </Dialog>
      )}
      {open === "Reset your password" && (
        <Dialog key={open} label={open} close={close}>
          <Form
            label={open}
            actions={["Send the e-mail"]}
            send={async ({ email = "" }) => {
              await forgotPassword({ email });
              setSent("You will get an e-mail with a link to choose a new password.");
            }}
            fields={{ email: EMAIL }}
          />
          <p role="status">{sent}</p>
        </Dialog>
      )}
    </div>
  );
}
