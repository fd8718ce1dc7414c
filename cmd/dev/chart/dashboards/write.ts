import { forwarderDashboard } from './forwarder.ts'
import { operatorDashboard } from './operator.ts'
import { overviewDashboard } from './overview.ts'
import type { Dashboard, Panel, Row } from './panel.ts'
import { storesDashboard } from './stores.ts'
import { tenantDashboard } from './tenant.ts'

/** All dashboards. Pure. */
export function dashboards(): Dashboard[] {
  return [
    overviewDashboard(),
    forwarderDashboard(),
    operatorDashboard(),
    storesDashboard(),
    tenantDashboard(),
  ]
}

const datasource = { type: 'prometheus', uid: '${datasource}' }
const columns = 24
const curveWidth = 8
const curveHeight = 8
const numberWidth = 4
const numberHeight = 4

/** A dashboard as Grafana reads it: https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/ (read 2026-11). */
export function dashboardText(dashboard: Dashboard): string {
  const { name, title, description } = dashboard
  const json = {
    uid: `latchkey-${name}`,
    ...{ title, description, tags: ['latchkey'], schemaVersion: 41, version: 1 },
    ...{ editable: true, graphTooltip: 1, timezone: 'browser', refresh: '30s' },
    time: { from: 'now-6h', to: 'now' },
    templating: { list: variables(dashboard) },
    links: [
      {
        ...{ type: 'dashboards', tags: ['latchkey'], title: 'Latchkey', asDropdown: true },
        ...{ includeVars: true, keepTime: true },
      },
    ],
    annotations: { list: [] },
    panels: placed(dashboard.rows),
  }
  return `${JSON.stringify(json, undefined, 2)}\n`
}

function variables({ hasTenant }: Dashboard): object[] {
  const chosen = (name: string, label: string, query: string) => ({
    ...{ type: 'query', name, label, datasource, definition: query },
    query: { query, refId: name },
    ...{ refresh: 2, sort: 1, multi: false, includeAll: false, hide: 0, options: [] },
  })
  return [
    {
      ...{ type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus' },
      ...{ refresh: 1, multi: false, includeAll: false, hide: 0, options: [] },
    },
    chosen('namespace', 'Namespace', 'label_values(latchkey_build_info, namespace)'),
    ...(hasTenant
      ? [
          chosen(
            'tenant',
            'Tenant',
            'label_values(latchkey_tenants_requests_total{namespace="$namespace"}, tenant)',
          ),
        ]
      : []),
  ]
}

/** Rows one below the other, their panels from left to right. */
function placed(rows: readonly Row[]): object[] {
  const panels: object[] = []
  let y = 0
  let id = 0
  for (const row of rows) {
    id += 1
    panels.push({
      id,
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { h: 1, w: columns, x: 0, y },
      panels: [],
    })
    y += 1
    let x = 0
    let lineHeight = 0
    for (const panel of row.panels) {
      const [w, h] = panel.isNumber ? [numberWidth, numberHeight] : [curveWidth, curveHeight]
      if (x + w > columns) {
        y += lineHeight
        x = 0
        lineHeight = 0
      }
      id += 1
      panels.push(shown(panel, id, { h, w, x, y }))
      x += w
      lineHeight = Math.max(lineHeight, h)
    }
    y += lineHeight
  }
  return panels
}

function shown(panel: Panel, id: number, gridPos: object): object {
  const { title, description, unit, queries, isNumber } = panel
  const targets = queries.map(([expr, legendFormat], index) => ({
    ...{ refId: String.fromCharCode(65 + index), datasource, expr, editorMode: 'code' },
    ...(isNumber ? { instant: true, range: false } : { range: true, legendFormat }),
  }))
  const look = isNumber
    ? { color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: stepsOf(panel) } }
    : {
        color: { mode: 'palette-classic' },
        custom: { fillOpacity: 8, lineWidth: 1, showPoints: 'never' },
        min: 0,
      }
  return {
    ...{ id, type: isNumber ? 'stat' : 'timeseries', title, description, datasource, gridPos, targets },
    fieldConfig: { defaults: { unit, ...look }, overrides: [] },
    options: isNumber
      ? {
          reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
          colorMode: 'value',
          graphMode: 'none',
        }
      : {
          legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
          tooltip: { mode: 'multi', sort: 'desc' },
        },
  }
}

/** Each colour from a number on; the first has none. */
function stepsOf({ bounds, exactly }: Panel): object[] {
  if (exactly !== undefined) {
    return [
      { color: 'red', value: null },
      { color: 'green', value: exactly },
      { color: 'red', value: exactly + 1 },
    ]
  }
  const colors = ['yellow', 'red']
  return [
    { color: 'green', value: null },
    ...(bounds ?? []).map((value, index) => ({ color: colors[index] ?? 'red', value })),
  ]
}
