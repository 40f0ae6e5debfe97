/** What a caller may do on a channel. */
export type ChannelRights = {
  readonly broadcast: { readonly read: boolean; readonly write: boolean };
  readonly presence: { readonly read: boolean; readonly write: boolean };
};

const BOTH = { read: true, write: true };

/** The rights on public channels. */
export const PUBLIC: ChannelRights = { broadcast: BOTH, presence: BOTH };
