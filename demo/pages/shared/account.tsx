import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { Form } from "./form.tsx";
import { onSession, register, resetPassword, session, signIn, signOut, type User } from "./session.ts";

/** The user of this browser, or null. */
export function useUser(): User | null {
  const text = useSyncExternalStore(onSession, () => JSON.stringify(session()?.user ?? null));
  return JSON.parse(text);
}

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
  const [isSent, setSent] = useState(false);
  const close = () => setOpen(null);
  const closing = (send: (form: object) => Promise<void>) => (form: object) => send(form).then(close);
  if (user !== null)
    return (
      <div className="row">
        <span>
          Signed in as <strong>{user.name}</strong>
        </span>
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </div>
    );
  return (
    <div className="row">
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
            send={closing(signIn)}
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
            send={closing(register)}
            fields={{
              name: { label: "Name", autoComplete: "name" },
              email: EMAIL,
              password: { ...PASSWORD, autoComplete: "new-password" },
            }}
          />
        </Dialog>
      )}
      {open === "Reset your password" && (
        <Dialog key={open} label={open} close={close}>
          <Form
            label={open}
            actions={["Send the e-mail"]}
            send={(form) => resetPassword(form).then(() => setSent(true))}
            fields={{ email: EMAIL }}
          />
          <p role="status">{isSent && "You will get an e-mail with a link to choose a new password."}</p>
        </Dialog>
      )}
    </div>
  );
}
