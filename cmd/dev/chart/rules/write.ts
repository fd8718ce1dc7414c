import { stringify } from 'yaml'
import { deliveryAlerts } from './deliveries.ts'
import { intakeAlerts } from './intake.ts'
import { objectiveRecordings } from './objectives.ts'
import { operatorAlerts } from './operator.ts'
import { processAlerts } from './processes.ts'
import type { RuleGroup } from './rule.ts'
import { storeAlerts } from './stores.ts'
import { waitingRecordings } from './waiting.ts'

/** A file of rules, as promtool and Prometheus read it. */
export interface RuleFile {
  /** Without its ending. */
  readonly name: string
  readonly groups: readonly RuleGroup[]
}

/** All rules: what is recorded, and alerts by what they are about. Pure. */
export function ruleFiles(): RuleFile[] {
  return [
    { name: 'recordings', groups: [...objectiveRecordings(), waitingRecordings()] },
    { name: 'intake', groups: [{ name: 'latchkey-intake', rules: intakeAlerts() }] },
    { name: 'deliveries', groups: [{ name: 'latchkey-deliveries', rules: deliveryAlerts() }] },
    { name: 'operator', groups: [{ name: 'latchkey-operator', rules: operatorAlerts() }] },
    { name: 'stores', groups: [{ name: 'latchkey-stores', rules: storeAlerts() }] },
    { name: 'processes', groups: [{ name: 'latchkey-processes', rules: processAlerts() }] },
  ]
}

/** The text of a file of rules. Pure. */
export function ruleText({ groups }: RuleFile): string {
  return stringify({ groups }, { compat: 'yaml-1.1', aliasDuplicateObjects: false, lineWidth: 0 })
}
