// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// analysis is a typical request with the code that answers it. The code leaves its numbers in the variable answer.
type analysis struct {
	// number is that of the collection.
	number, file, code string
	want               map[string]any
	// chart looks at the figure, when there must be one.
	chart func(t *testing.T, c chart)
}

// near is a number that may differ by 0.01 (money and per cent), part one that may differ by a thousandth of itself.
type (
	near float64
	part float64
)

func same(got, want any) bool {
	number, isNumber := got.(float64)
	switch w := want.(type) {
	case near:
		return isNumber && math.Abs(number-float64(w)) <= 0.01+1e-9
	case part:
		return isNumber && math.Abs(number-float64(w)) <= 1e-3*math.Abs(float64(w))
	case int:
		return isNumber && number == float64(w)
	}
	return got == want
}

// TestRequests: the numbers and the charts of typical requests, on real files.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, a := range slices.Concat(weatherRequests(), tableRequests(), bookkeepingRequests()) {
		t.Run(a.number+" "+a.file, func(t *testing.T) {
			t.Parallel()
			f := sample(t, a.file)
			x := s.postFiles(t, call{
				"code": "FILE = " + quote(a.file) + "\n" + a.code, "return": []string{"answer"}, "limits": call{"wall": 60, "memory": "1GiB"},
			}, f).execution(t).ok(t)
			var answer map[string]any
			if err := json.Unmarshal(x.Values["answer"]["application/json"], &answer); err != nil {
				t.Fatalf("%v: %v, %+v", err, x.Values, x.Warnings)
			}
			for name, want := range a.want {
				if !same(answer[name], want) {
					t.Errorf("%s is %v, want %v", name, answer[name], want)
				}
			}
			if x.warned("chart.missing_glyph") != "" || strings.Contains(strings.ReplaceAll(x.Stderr, "Pandas4Warning", ""), "Warning") {
				t.Errorf("warnings: %+v %s", x.Warnings, x.Stderr)
			}
			if a.chart == nil {
				return
			}
			c, picture := x.oneChart(t)
			if size := picture.Bounds().Size(); size.X < 800 || size.Y < 500 {
				t.Errorf("the picture has %v pixels", size)
			}
			a.chart(t, c)
			keepPicture(t, "request-"+a.number, x)
		})
	}
}

// keepPicture writes the picture of a run for eyes, when a folder for them is named.
func keepPicture(t *testing.T, name string, x *execution) {
	t.Helper()
	folder := os.Getenv("GLOVEBOX_TEST_PICTURES")
	if folder == "" {
		return
	}
	for i, result := range x.shown("image/png") {
		path := filepath.Join(folder, name+string(rune('a'+i))+".png")
		if err := os.WriteFile(path, result.picture(t), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// wantSeries fails unless the chart is of that type with so many series of so many points.
func wantSeries(t *testing.T, c chart, kind string, points ...int) {
	t.Helper()
	if c.Type != kind || len(c.Series) != len(points) {
		t.Fatalf("a %s chart with %d series, want %s with %d", c.Type, len(c.Series), kind, len(points))
	}
	for i, want := range points {
		if got := c.Series[i].points(); got != want {
			t.Errorf("series %d has %d points, want %d", i, got, want)
		}
	}
}

func weatherRequests() []analysis {
	return []analysis{
		{number: "1", file: "seattle-weather.csv", code: `
df = pd.read_csv(FILE, parse_dates=['date'])
answer = {'rows': len(df), 'columns': df.shape[1], 'missing': int(df.isna().sum().sum()), 'duplicates': int(df.duplicated().sum()),
          'from': str(df.date.min().date()), 'to': str(df.date.max().date())}
print('这份数据有', answer)`, want: map[string]any{"rows": 1461, "columns": 6, "missing": 0, "duplicates": 0, "from": "2012-01-01", "to": "2015-12-31"}},
		{number: "2", file: "seattle-weather.csv", code: `
df = pd.read_csv(FILE, parse_dates=['date'])
rain = df[df.date.dt.year == 2015].groupby(df.date.dt.month).precipitation.sum()
fig, ax = plt.subplots()
ax.bar([f'{m}月' for m in rain.index], rain)
ax.set_title('2015年各月总降水量'); ax.set_xlabel('月份'); ax.set_ylabel('降水量 (mm)')
answer = {'month': int(rain.idxmax()), 'most': float(rain.max()), 'year': float(rain.sum())}
plt.show()`, want: map[string]any{"month": 12, "most": near(284.5), "year": near(1139.2)}, chart: func(t *testing.T, c chart) {
			t.Helper()
			wantSeries(t, c, "bar", 12)
			if y := c.Series[0].Y; math.Abs(y[0]-93) > 0.01 || math.Abs(y[6]-2.3) > 0.01 || math.Abs(y[11]-284.5) > 0.01 {
				t.Errorf("bars %v", y)
			}
			if c.Title != "2015年各月总降水量" || c.axis("y").Unit != "mm" || c.axis("x").Scale != "category" || c.Series[0].X[0] != "1月" {
				t.Errorf("%q, %+v, %v", c.Title, c.Axes, c.Series[0].X)
			}
		}},
		{
			number: "4", file: "seattle-weather.csv", code: `
df = pd.read_csv(FILE, parse_dates=['date'])
year = df[df.date.dt.year == 2014]
hot = year.loc[year.temp_max.idxmax()]
fig, ax = plt.subplots(figsize=(9, 4))
ax.plot(year.date, year.temp_max)
ax.annotate(f'{hot.temp_max} °C', (hot.date, hot.temp_max), xytext=(30, -4), textcoords='offset points', arrowprops={'arrowstyle': '->'})
ax.set_title('Daily maximum temperature, Seattle 2014'); ax.set_ylabel('Temperature (°C)')
answer = {'day': str(hot.date.date()), 'temperature': float(hot.temp_max), 'annotations': len(ax.texts)}`,
			want: map[string]any{"day": "2014-08-11", "temperature": near(35.6), "annotations": 1}, chart: func(t *testing.T, c chart) {
				t.Helper()
				wantSeries(t, c, "line", 365)
				if x := c.axis("x"); x.Scale != "date" || len(x.Ticks) > 20 || c.axis("y").Unit != "°C" {
					t.Errorf("axes %+v", c.Axes)
				}
			},
		},
		{number: "11", file: "stocks.csv", code: `
df = pd.read_csv(FILE)
df['date'] = pd.to_datetime(df.date, format='%b %d %Y')
df = df.sort_values('date')
gain = df.groupby('symbol').price.agg(lambda p: (p.iloc[-1] / p.iloc[0] - 1) * 100)
fig, ax = plt.subplots()
for name, part in df.groupby('symbol'):
    ax.plot(part.date, part.price, label=name)
ax.legend(); ax.set_title('Prices'); ax.set_ylabel('Price (USD)')
answer = {**gain.to_dict(), 'best': gain.idxmax(), 'GOOG begins': str(df[df.symbol == 'GOOG'].date.min().year)}`, want: map[string]any{
			"best": "AAPL", "AAPL": near(759.75), "GOOG": near(447.22), "AMZN": near(99.54), "IBM": near(24.90), "MSFT": near(-27.66), "GOOG begins": "2004",
		}, chart: func(t *testing.T, c chart) {
			t.Helper()
			wantSeries(t, c, "line", 123, 123, 68, 123, 123)
			if !slices.Equal(c.Legend, []string{"AAPL", "AMZN", "GOOG", "IBM", "MSFT"}) || c.Series[2].Name != "GOOG" {
				t.Errorf("legend %v", c.Legend)
			}
			if first, ok := c.Series[2].X[0].(string); !ok || !strings.HasPrefix(first, "2004-08") || c.axis("x").Scale != "date" {
				t.Errorf("GOOG begins at %v on %+v", c.Series[2].X[0], c.axis("x"))
			}
		}},
	}
}

func tableRequests() []analysis {
	return []analysis{
		{number: "6", file: "movies.json", code: `
df = pd.read_json(FILE)
top = df.groupby('Distributor')['Worldwide Gross'].sum().nlargest(5)
top.apply('{:,.0f}'.format).to_frame('gross').to_excel('top5.xlsx')
answer = {name: int(value) for name, value in top.items()}
print(top.to_string(float_format='{:,.0f}'.format))
assert len(pd.read_excel('top5.xlsx')) == 5`, want: map[string]any{
			"Warner Bros.": 39712039384, "Walt Disney Pictures": 35458388004, "20th Century Fox": 34739813057,
			"Paramount Pictures": 34361820057, "Sony Pictures": 32418346390,
		}},
		{number: "7", file: "movies.json", code: `
df = pd.read_json(FILE)[['IMDB Rating', 'Rotten Tomatoes Rating']].dropna()
df.plot.scatter('IMDB Rating', 'Rotten Tomatoes Rating', s=4, title='Ratings agree')
answer = {'r': df.corr().iloc[0, 1], 'pairs': len(df)}`, want: map[string]any{"r": part(0.7431), "pairs": 2260}, chart: func(t *testing.T, c chart) {
			t.Helper()
			wantSeries(t, c, "scatter", 2260)
			if c.axis("x").Label != "IMDB Rating" || c.axis("y").Label != "Rotten Tomatoes Rating" || c.Title != "Ratings agree" {
				t.Errorf("%q %+v", c.Title, c.Axes)
			}
		}},
		{number: "10", file: "penguins.json", code: `
df = pd.read_json(FILE)
known = df[df.Sex.isin(['MALE', 'FEMALE'])]
table = known.pivot_table('Body Mass (g)', 'Species', 'Sex')
display(table.round(1))
table.plot.bar(title='各品种雌雄企鹅的平均体重', ylabel='体重 (g)', rot=0)
answer = {f'{s} {x}': table.loc[s, x] for s in table.index for x in table.columns} | {'left out': len(df) - len(known)}
print('略去', answer['left out'], '行：性别缺失或为 "."')`, want: map[string]any{
			"Adelie FEMALE": part(3368.8), "Adelie MALE": part(4043.5), "Chinstrap FEMALE": part(3527.2), "Chinstrap MALE": part(3939.0),
			"Gentoo FEMALE": part(4679.7), "Gentoo MALE": part(5484.8), "left out": 11,
		}, chart: func(t *testing.T, c chart) {
			t.Helper()
			wantSeries(t, c, "bar", 3, 3)
			if c.Title != "各品种雌雄企鹅的平均体重" || c.axis("y").Unit != "g" || !slices.Contains(c.Legend, "FEMALE") {
				t.Errorf("%q %+v %v", c.Title, c.Axes, c.Legend)
			}
		}},
		{number: "13", file: "telco_churn.csv", code: `
df = pd.read_csv(FILE)
churn = df.Churn.eq('Yes')
by = churn.groupby(df.Contract).mean() * 100
fig, ax = plt.subplots()
ax.bar(by.index, by)
ax.yaxis.set_major_formatter('{x:.0f}%')
ax.set_title('流失率（按合同类型）'); ax.set_ylabel('流失率 (%)')
plt.savefig('churn.png')
answer = {**by.to_dict(), 'all': churn.mean() * 100}`, want: map[string]any{
			"all": near(26.54), "Month-to-month": near(42.71), "One year": near(11.27), "Two year": near(2.83),
		}, chart: func(t *testing.T, c chart) {
			t.Helper()
			wantSeries(t, c, "bar", 3)
			tick, ok := c.axis("y").Ticks[0].(string)
			if !ok || !strings.HasSuffix(tick, "%") || c.axis("y").Unit != "%" {
				t.Errorf("axis %+v", c.axis("y"))
			}
		}},
		{number: "15", file: "telco_churn.csv", code: `
from scipy import stats
df = pd.read_csv(FILE)
yes, no = (df.MonthlyCharges[df.Churn == v] for v in ('Yes', 'No'))
test = stats.ttest_ind(yes, no, equal_var=False)
answer = {'churned': yes.mean(), 'stayed': no.mean(), 't': test.statistic, 'small': bool(8e-73 < test.pvalue < 9e-73)}`, want: map[string]any{
			"churned": near(74.44), "stayed": near(61.27), "t": part(18.41), "small": true,
		}},
		{number: "17", file: "zipcodes.csv", code: `
df = pd.read_csv(FILE, dtype={'zip_code': str})
states = df.state.value_counts()
answer = {'zero': int(df.zip_code.str.startswith('0').sum()), 'most': states.index[0], **states.head(3).to_dict()}`, want: map[string]any{
			"zero": 3256, "most": "TX", "TX": 2670, "CA": 2666, "NY": 2232,
		}},
		{
			number: "26", file: "datasets_3_sheets.xlsx", code: `
from scipy import stats
cars = pd.read_excel(FILE, sheet_name='mtcars')
fit = stats.linregress(cars.wt, cars.mpg)
sns.set_theme()
ax = sns.regplot(x='wt', y='mpg', data=cars, ci=None)
ax.set(title='油耗与车重', xlabel='车重 (1000 lbs)', ylabel='油耗 (mpg)')
answer = {'slope': fit.slope, 'intercept': fit.intercept, 'r': fit.rvalue, **{f'{k} cyl': v for k, v in cars.groupby('cyl').mpg.mean().items()}}`,
			want: map[string]any{
				"slope": part(-5.3445), "intercept": part(37.2851), "r": part(-0.8677), "4 cyl": part(26.664), "6 cyl": part(19.743), "8 cyl": part(15.100),
			}, chart: func(t *testing.T, c chart) {
				t.Helper()
				slices.SortFunc(c.Series, func(a, b series) int { return strings.Compare(b.Type, a.Type) })
				if c.Type != "mixed" || len(c.Series) != 2 || c.Series[0].Type != "scatter" || c.Series[0].points() != 32 || c.Series[1].Type != "line" {
					t.Errorf("%s: %+v", c.Type, c.Series)
				}
				if c.axis("x").Unit != "1000 lbs" || c.axis("y").Unit != "mpg" {
					t.Errorf("axes %+v", c.Axes)
				}
			},
		},
	}
}

func bookkeepingRequests() []analysis {
	return []analysis{
		{number: "20", file: "alipay_records_gb18030.csv", code: `
df = pd.read_csv(FILE, encoding='gb18030', skiprows=24, index_col=False)
df.columns = df.columns.str.strip()
df['收/支'] = df['收/支'].str.strip()
by = df.groupby('收/支')['金额'].agg(['sum', 'count'])
answer = {f'{k} {c}': float(by.loc[k, c]) for k in by.index for c in by.columns}
by`, want: map[string]any{
			"支出 sum": near(211.64), "支出 count": 5, "收入 sum": near(222228.50), "收入 count": 1, "不计收支 sum": near(247.37), "不计收支 count": 4,
		}},
		{
			number: "22", file: "icbc_debit_v2.csv", code: `
import io
lines = open(FILE, encoding='utf-8-sig').read().splitlines()
start = next(i for i, line in enumerate(lines) if '记账金额' in line)
df = pd.read_csv(io.StringIO('\n'.join(lines[start:])), index_col=False, dtype=str)
df.columns = df.columns.str.strip()
df = df.apply(lambda c: c.str.strip())
df = df[~df.iloc[:, 0].str.contains('合计', na=True)]
amount = lambda c: pd.to_numeric(c.str.replace(',', ''), errors='coerce')
out, income = (amount(df[next(n for n in df.columns if '记账金额' in n and w in n)]) for w in ('支出', '收入'))
answer = {'rows': len(df), 'out': out.sum(), 'out count': int(out.notna().sum()), 'in': income.sum(), 'in count': int(income.notna().sum())}`,
			want: map[string]any{"rows": 11, "out": near(4241.08), "out count": 6, "in": near(2841.74), "in count": 5},
		},
		{
			number: "23", file: "co2_manufacturing_pasted.csv", code: `
df = pd.read_csv(FILE, skiprows=3, thousands=',')
name, year = df.columns[0], next(c for c in df.columns if '2007' in str(c))
df[name] = df[name].astype(str).str.replace(r'\s+', ' ', regex=True).str.strip()
end = df.index[df[name].str.startswith('Total')][0]
total, df = df.loc[end, year], df.loc[:end - 1]
value = pd.to_numeric(df[year])
share = (value / value.sum() * 100).set_axis(df[name])
fig, ax = plt.subplots()
ax.pie(value, labels=df[name], autopct='%.1f%%', textprops={'fontsize': 6})
ax.set_title('CO₂ of manufacturing, 2007')
top = share.nlargest(3)
answer = {'sum': float(value.sum()), 'total': float(total), **{f'{i}': [k, v][1] for i, (k, v) in enumerate(top.items())}, 'first': top.index[0][:9]}`,
			want: map[string]any{"sum": 108610, "total": 108609, "0": near(23.14), "1": near(20.26), "2": near(15.36), "first": "Machinery"},
			chart: func(t *testing.T, c chart) {
				t.Helper()
				wantSeries(t, c, "pie", 13)
				if slices.ContainsFunc(c.Series[0].Labels, func(label string) bool { return strings.HasPrefix(label, "Total") }) {
					t.Errorf("the total is a slice: %v", c.Series[0].Labels)
				}
			},
		},
		{number: "25", file: "deaths_title_and_footer.xlsx", code: `
book = {n: pd.read_excel(FILE, sheet_name=n, skiprows=4, nrows=10) for n in ('arts', 'other')}
together = pd.concat(book.values())
answer = {n: f.Age.mean() for n, f in book.items()} | {'all': together.Age.mean(), 'persons': len(together)}
answer |= {p: v for p, v in book['arts'].groupby('Profession').Age.mean().items() if p in ('actor', 'author', 'musician')}
together.plot.box(column='Age', title='年齢 العمر उम्र 나이')`, want: map[string]any{
			"arts": near(72.9), "other": near(75.4), "all": near(74.15), "persons": 20, "actor": near(74.2), "author": 89, "musician": near(67.25),
		}, chart: func(t *testing.T, c chart) {
			t.Helper()
			if c.Type != "box" || c.Title != "年齢 العمر उम्र 나이" || len(c.Series) == 0 || len(c.Series[0].Boxes) != 1 {
				t.Errorf("%s %q %+v", c.Type, c.Title, c.Series)
			}
		}},
	}
}

// TestRequestsFollowUp: later questions stand on earlier answers, in the same session.
func TestRequestsFollowUp(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	churn, weather, movies := sample(t, "telco_churn.csv"), sample(t, "seattle-weather.csv"), sample(t, "movies.json")
	n := s.open(t, call{"limits": call{"memory": "1GiB"}}, churn, weather, movies)
	n.cell(t, "df = pd.read_csv('telco_churn.csv')\nprint(round(df.Churn.eq('Yes').mean()*100, 2))", within(60)).says(t, "26.54")
	n.cell(t, "fiber = df[df.InternetService == 'Fiber optic']\nprint(len(fiber), round(fiber.Churn.eq('Yes').mean()*100, 2))").says(t, "3096 41.89")
	c, _ := n.cell(t, "w = pd.read_csv('seattle-weather.csv', parse_dates=['date'])\nrain = w[w.date.dt.year == 2015].groupby(w.date.dt.month).precipitation.sum()\n"+
		"plt.bar(rain.index, rain); plt.title('Rain in 2015')", within(60)).oneChart(t)
	wantSeries(t, c, "bar", 12)
	c, _ = n.cell(t, "plt.plot(rain.index, rain); plt.title('2015年每月降水量')").oneChart(t)
	wantSeries(t, c, "line", 12)
	if c.Title != "2015年每月降水量" {
		t.Errorf("title %q", c.Title)
	}
	n.cell(t, "m = pd.read_json('movies.json')\ntop = m.groupby('Distributor')['Worldwide Gross'].sum().nlargest(5)", within(60)).ok(t)
	n.cell(t, "top.to_excel('top.xlsx')\nprint(len(pd.read_excel('top.xlsx')))").says(t, "5")
	x := n.cell(t, "df.groupby('部门').size()")
	if x.Error == nil || x.Error.Name != "KeyError" || !strings.Contains(x.Error.Value, "部门") {
		t.Errorf("%v", x.Error)
	}
	n.cell(t, "e = df[df.tenure < 0]\nprint(len(e)); plt.bar(e.Contract, e.MonthlyCharges); plt.title('empty')").says(t, "0")
}
