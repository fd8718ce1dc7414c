import { type Alert, alert } from './rule.ts'

const info = 'latchkey_build_info'
const here = `and on (job, instance) ${info}`

/** What alerts tell of our processes as such. */
export function processAlerts(): Alert[] {
  return [...presenceAlerts(), ...loopAlerts()]
}

function presenceAlerts(): Alert[] {
  const running = (labels = '') => `group by (namespace) (${info}${labels})`
  const without = (service: string) =>
    `label_replace(${running()} unless ${running(`{process="${service}"}`)}, "process", "${service}", "", "")`
  return [
    alert({
      ...{ name: 'Absent', severity: 'critical', for: '5m' },
      expr: `absent(${info})`,
      summary: 'No process of Latchkey is seen',
      description: 'Nothing of it is scraped: nothing runs, or Prometheus does not find it.',
    }),
    alert({
      ...{ name: 'ProcessMissing', severity: 'critical', for: '5m' },
      // Those that an installation may do without are missed for as long as they are remembered.
      expr: `${without('latchkey-api')} or ${without('latchkey-forwarder')}
        or (group by (namespace, process) (last_over_time(${info}[6h])) unless group by (namespace, process) (${info}))`,
      summary: '{{ $labels.namespace }}: no {{ $labels.process }} is seen',
      description: 'Others of the installation are. Its pods are gone, do not start, or are not scraped.',
    }),
    alert({
      ...{ name: 'TargetDown', severity: 'warning', for: '5m' },
      expr: `(up == 0) and on (job, instance) last_over_time(${info}[1h])`,
      summary: '{{ $labels.namespace }}/{{ $labels.pod }}: gives no figures any more',
      description:
        'Its ops port does not answer. What it would say of itself is missing from all other alerts.',
    }),
    alert({
      ...{ name: 'Restarting', severity: 'warning' },
      expr: `changes(process_start_time_seconds[30m]) > 2 ${here}`,
      summary: '{{ $labels.namespace }}/{{ $labels.pod }}: started {{ $value }} times within half an hour',
      description: 'It crashes, is out of memory, or is restarted since a loop of it hangs.',
    }),
    alert({
      ...{ name: 'VersionsMixed', severity: 'warning', for: '1h' },
      expr: `count by (namespace) (count by (namespace, version) (${info})) > 1`,
      summary: '{{ $labels.namespace }}: {{ $value }} versions have been running for an hour',
      description: 'A rollout stands still. Neighbouring versions work together; that is meant for minutes.',
    }),
  ]
}

function loopAlerts(): Alert[] {
  return [
    alert({
      ...{ name: 'LoopStuck', severity: 'critical', for: '2m' },
      expr: 'max by (namespace, pod, loop) (latchkey_process_loop_silence_ratio) > 1',
      summary: '{{ $labels.namespace }}/{{ $labels.pod }}: the loop “{{ $labels.loop }}” turns no more',
      description: 'The kubelet should have restarted the container by now.',
    }),
    alert({
      ...{ name: 'LoopFailing', severity: 'warning', for: '15m' },
      expr: 'sum by (namespace, loop) (increase(latchkey_process_loop_failures_total[10m])) > 1',
      summary:
        '{{ $labels.namespace }}: the loop “{{ $labels.loop }}” has been failing for a quarter of an hour',
      description: 'It tries again. Its log line says why.',
    }),
    alert({
      ...{ name: 'EventLoopLag', severity: 'warning', for: '10m' },
      expr: 'max by (namespace, pod) (latchkey_process_event_loop_lag_seconds) > 1',
      summary:
        '{{ $labels.namespace }}/{{ $labels.pod }}: everything waits up to {{ $value | humanizeDuration }} for the processor',
      description: 'The pod has less processor time than it needs, or one piece of work takes too long.',
    }),
  ]
}
