import { cardDispute } from './card-dispute.ts'
import type { Chargeback, SimulatedProvider } from './request.ts'
import { walletDispute } from './wallet-dispute.ts'

/** Events in a dispute's life. */
export const stepsCount = 3

/** One event that is to be written. */
export interface DisputeStep {
  /** Of the simulation: what makes this dispute another one than any other. */
  readonly id: string
  readonly chargeback: Chargeback
  /** 0 for the first. */
  readonly step: number
  /** When the dispute was opened, and when this happened. */
  readonly openedAtMs: number
  readonly occurredAtMs: number
}

/** The normalized types of a dispute's events, in their order. Pure. */
export function stepTypes({ outcome }: Chargeback): readonly string[] {
  return ['chargeback.created', 'chargeback.under_review', `chargeback.${outcome}`]
}

/**
 * The provider's id of an event. The same whenever it is asked for, so that an event which is sent once more after a crash is
 * known as a duplicate. Pure.
 */
export function sourceEventId(simulationId: string, provider: SimulatedProvider, step: number): string {
  const name = nameOf(simulationId)
  return provider === 'card' ? `evt_sim_${name}_${step + 1}` : `WH-SIM-${name.toUpperCase()}-${step + 1}`
}

/** The body of an event as the provider's vendor writes it. Pure. */
export function eventBody(of: DisputeStep): string {
  const { provider } = of.chargeback
  const written = { ...of, name: nameOf(of.id), eventId: sourceEventId(of.id, provider, of.step) }
  return JSON.stringify(provider === 'card' ? cardDispute(written) : walletDispute(written))
}

function nameOf(simulationId: string): string {
  return simulationId.slice('sim_'.length)
}
