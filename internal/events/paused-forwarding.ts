/** What the platform has paused: it waits, is not claimed, and spends no attempt. */
export interface PausedForwarding {
  /** Nothing is sent to anybody. */
  readonly all: boolean
  /** Nothing is sent to these; at most a few hundred, since each claim is told of them. */
  readonly tenants: ReadonlySet<string>
}
