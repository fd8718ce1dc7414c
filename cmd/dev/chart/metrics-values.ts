import { flag, type Group, group, type Keys, kubeList, objectName, pairs, text, texts } from './kinds.ts'

/** What those get who watch over it. */
export const seen: Keys = {
  metrics: group('What Prometheus and Grafana get.', {
    scrapeAnnotations: flag(
      'Annotations prometheus.io/… on pods, for a Prometheus that goes by them.',
      false,
    ),
    podMonitor: monitor('A PodMonitor of the Prometheus operator.'),
    serviceMonitor: monitor('A ServiceMonitor with a Service of its own, in place of the PodMonitor.'),
    rules: group('A PrometheusRule with recording and alerting rules.', {
      enabled: flag('Whether there is one.', false),
      labels: pairs('Labels by which Prometheus finds it.'),
      namespace: objectName('Where it is made; empty: with the release.'),
      alertLabels: pairs('Further labels of each alert, such as the team that it goes to.'),
      disabled: texts('Names of alerts that are left out.', [], '[A-Za-z]+'),
      runbookUrl: text(
        'Where the pages of docs/runbooks are: what stands before their names in each alert.',
        'https://latchkey.dev/runbooks',
        'https?://.+',
      ),
    }),
    dashboards: group('Dashboards as ConfigMaps, for Grafana’s sidecar.', {
      enabled: flag('Whether there are any.', false),
      labels: pairs('Labels by which the sidecar finds them.', { grafana_dashboard: '1' }),
      annotations: pairs('Annotations, such as that of their folder.', { grafana_folder: 'Latchkey' }),
      namespace: objectName('Where they are made; empty: with the release.'),
    }),
  }),
}

function monitor(doc: string): Group {
  return group(doc, {
    enabled: flag('Whether there is one.', false),
    labels: pairs('Labels by which Prometheus finds it.'),
    interval: text('How often, such as 30s; empty: Prometheus’ own.', '', '([0-9]+(ms|s|m|h))?'),
    scrapeTimeout: text('How long, such as 10s; empty: Prometheus’ own.', '', '([0-9]+(ms|s|m|h))?'),
    relabelings: kubeList('Relabelings before it is asked.'),
    metricRelabelings: kubeList('Relabelings of what it tells.'),
  })
}
