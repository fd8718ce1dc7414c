import type { DestinationKind } from './destination.ts'
import { slack } from './slack/slack.ts'
import { webhook } from './webhook/webhook.ts'

/** Kinds of destinations by name, which is the value of the metric label `destination_kind`. */
export const destinationKinds = { webhook, slack } as const satisfies Readonly<
  Record<string, DestinationKind>
>

/** Name of a kind of destination. */
export type DestinationKindName = keyof typeof destinationKinds
