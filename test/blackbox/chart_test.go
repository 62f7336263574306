// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"image"
	_ "image/jpeg" // a PIL picture may be one
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
)

const chartType = "application/vnd.glovebox.chart+json"

// chart is what a client reads of a chart's data.
type chart struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Axes   []axis   `json:"axes"`
	Series []series `json:"series"`
	Charts []chart  `json:"charts"`
	Legend []string `json:"legend"`
}

type axis struct {
	Axis  string `json:"axis"`
	Label string `json:"label"`
	Unit  string `json:"unit"`
	Scale string `json:"scale"`
	Ticks []any  `json:"ticks"`
	Range []any  `json:"limits"`
}

type series struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	X      []any     `json:"x"`
	Y      []float64 `json:"y"`
	Points int       `json:"points"`
	Labels []string  `json:"labels"`
	Values []float64 `json:"values"`
	Boxes  []any     `json:"boxes"`
	Bins   []float64 `json:"bins"`
	Counts []float64 `json:"counts"`
}

// points is the true number of points.
func (s series) points() int { return max(s.Points, len(s.X), len(s.Y), len(s.Values)) }

// axis returns the first axis of that name.
func (c chart) axis(name string) axis {
	for _, a := range c.Axes {
		if a.Axis == name {
			return a
		}
	}
	return axis{}
}

// charts returns the charts of a run, and fails when a picture has none or is not sharp.
func (x *execution) charts(t *testing.T) (found []chart) {
	t.Helper()
	for _, result := range x.shown(chartType) {
		var c chart
		if err := json.Unmarshal(result[chartType], &c); err != nil {
			t.Fatalf("%v: %.300s", err, result[chartType])
		}
		found = append(found, c)
	}
	return found
}

// oneChart returns the only chart of a run, whose picture must be a PNG.
func (x *execution) oneChart(t *testing.T) (chart, image.Image) {
	t.Helper()
	charts := x.ok(t).charts(t)
	if len(charts) != 1 {
		t.Fatalf("%d charts, want 1: %+v", len(charts), x.Warnings)
	}
	return charts[0], decodePNG(t, x.shown(chartType)[0].picture(t))
}

func decodePNG(t *testing.T, content []byte) image.Image {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// resolution returns the dots per inch that a PNG says it has.
func resolution(content []byte) float64 {
	at := bytes.Index(content, []byte("pHYs"))
	if at < 0 || at+8 > len(content) {
		return 0
	}
	perMetre := 0
	for _, b := range content[at+4 : at+8] {
		perMetre = perMetre<<8 | int(b)
	}
	return math.Round(float64(perMetre) * 0.0254)
}

// TestT39NoOldCharts: each figure is shown once, in the run that made it (T38: shown and saved is one chart and one file).
func TestT39NoOldCharts(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const begin = "import matplotlib.pyplot as plt\n"
	for name, c := range map[string]struct {
		code          string
		charts, files int
	}{
		"left open":          {"plt.plot([1,2])", 1, 0},
		"shown":              {"plt.plot([1,2])\nplt.show()", 1, 0},
		"shown and saved":    {"plt.plot([1,2])\nplt.savefig('result.png')\nplt.show()", 1, 1},
		"shown, then saved":  {"plt.plot([1,2])\nplt.show()\nplt.savefig('result.png')", 1, 1},
		"saved only":         {"plt.plot([1,2])\nplt.savefig('result.png')", 1, 1},
		"saved and closed":   {"plt.plot([1,2])\nplt.savefig('result.png')\nplt.close()", 0, 1},
		"shown twice":        {"plt.plot([1,2])\nplt.show()\nplt.show()", 1, 0},
		"two figures":        {"plt.figure();plt.plot([1,2])\nplt.figure();plt.bar([1],[2])\nplt.show()", 2, 0},
		"one after another":  {"plt.plot([1,2]);plt.show()\nplt.plot([3,4]);plt.show()", 2, 0},
		"ten in a loop":      {"for i in range(10):\n plt.figure();plt.plot([i]);plt.title(str(i))", 10, 0},
		"the figure last":    {"fig,ax=plt.subplots()\nax.plot([1,2])\nfig", 1, 0},
		"displayed":          {"fig,ax=plt.subplots()\nax.plot([1,2])\ndisplay(fig)", 1, 0},
		"an axes last":       {"import pandas as pd\npd.Series([1,2]).plot()", 1, 0},
		"seaborn":            {"import seaborn as sns\nsns.lineplot(x=[1,2],y=[3,4])", 1, 0},
		"a grid":             {"fig,ax=plt.subplots(2,2)\nax[0,0].plot([1])\nplt.tight_layout()\nplt.show()", 1, 0},
		"empty figure":       {"plt.figure()", 0, 0},
		"closed":             {"plt.plot([1]);plt.close('all')", 0, 0},
		"before an error":    {"plt.plot([1,2])\nplt.title('kept')", 1, 0},
		"no figure":          {"print('no plot')", 0, 0},
		"saved to memory":    {"import io\nplt.plot([1]);b=io.BytesIO();plt.savefig(b);plt.close()", 0, 0},
		"object interface":   {"from matplotlib.figure import Figure\nf=Figure();f.subplots().plot([1])\nf", 1, 0},
		"saved in a folder":  {"import os\nos.makedirs('out/图',exist_ok=True)\nplt.plot([1]);plt.savefig('out/图/é.svg')", 1, 1},
		"by a function":      {"def draw():\n fig,ax=plt.subplots();ax.bar(['a'],[1]);return fig\ndraw();", 1, 0},
		"pandas subplots":    {"import pandas as pd\npd.DataFrame({'a':[1,2],'b':[3,4]}).plot(subplots=True)", 1, 0},
		"changed and redone": {"fig,ax=plt.subplots();ax.plot([1]);display(fig)\nax.plot([2]);display(fig)", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, begin+c.code, within(60)).ok(t)
			pictures := len(x.shown("image/png"))
			if len(x.charts(t)) != c.charts || pictures != c.charts || len(x.Artifacts) != c.files {
				t.Errorf("%d charts, %d pictures, files %v: want %d and %d", len(x.charts(t)), pictures, x.Artifacts, c.charts, c.files)
			}
			for _, result := range x.shown("image/png") {
				if dpi := resolution(result.picture(t)); dpi < 160 {
					t.Errorf("%v dpi", dpi)
				}
			}
			if again := s.run(t, "print('no plot')").ok(t); len(again.Results) != 0 {
				t.Errorf("an old chart came back: %v", again.Results)
			}
		})
	}
	t.Run("error after a chart", func(t *testing.T) {
		t.Parallel()
		x := s.run(t, begin+"plt.plot([1,2])\n1/0", within(60))
		if x.Error == nil || len(x.charts(t)) != 1 {
			t.Errorf("%v, %d charts", x.Error, len(x.charts(t)))
		}
	})
}

// scripts are words in the scripts that charts must be able to show.
var scripts = []string{"销售额", "銷售額", "売上高", "매출액", "مبيعات", "हिन्दी", "বাংলা", "தமிழ்", "ไทย", "עברית", "Ελληνικά", "Кириллица", "Tiếng Việt", "😀📈", "−5 €"}

// TestT41Scripts: no box in place of a character, whatever sets the fonts.
func TestT41Scripts(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	title := strings.Join(scripts, " ")
	for name, code := range map[string]string{
		"plain":             "",
		"seaborn's theme":   "import seaborn as sns\nsns.set_theme()",
		"seaborn's style":   "import seaborn as sns\nsns.set(style='whitegrid', font='DejaVu Sans')",
		"SimHei":            "plt.rcParams['font.family']='SimHei'",
		"sans-serif list":   "plt.rcParams['font.sans-serif']=['Microsoft YaHei','SimHei','Arial']",
		"reset":             "plt.rcdefaults()",
		"restored":          "import matplotlib\nmatplotlib.rc_file_defaults()",
		"a style":           "plt.style.use('ggplot')",
		"dark background":   "plt.style.use('dark_background')",
		"unicode minus":     "plt.rcParams['axes.unicode_minus']=True",
		"serif":             "plt.rcParams['font.family']='serif'",
		"font properties":   "from matplotlib import font_manager\nplt.rcParams['font.family']=['Times New Roman','STSong']",
		"xkcd-free context": "plt.rcParams.update({'font.size': 14, 'figure.dpi': 60})",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, "import matplotlib.pyplot as plt\n"+code+"\nplt.plot([-3,0,4],[-1,2,-5],label='"+scripts[1]+"')\nplt.title('"+title+
				"')\nplt.xlabel('销售额 (万元)')\nplt.legend()\nplt.show()", within(60))
			c, _ := x.oneChart(t)
			if c.Title != title || c.axis("x").Unit != "万元" {
				t.Errorf("title %q, axis %+v", c.Title, c.axis("x"))
			}
			keepPicture(t, "scripts-"+name, x)
			if text := x.warned("chart.missing_glyph"); text != "" || strings.Contains(x.Stderr, "Glyph") || strings.Contains(x.Stderr, "findfont") {
				t.Errorf("%s %s", text, x.Stderr)
			}
		})
	}
	t.Run("a character that no font has", func(t *testing.T) {
		t.Parallel()
		x := s.run(t, "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('\\U000100AB \\uE123')", within(60)).ok(t)
		if text := x.warned("chart.missing_glyph"); !strings.Contains(text, "\uE123") {
			t.Errorf("no warning: %+v", x.Warnings)
		}
	})
	t.Run("as text", func(t *testing.T) {
		t.Parallel()
		x := s.run(t, "import matplotlib.pyplot as plt,glovebox\nglovebox.set_formats('svg')\nplt.plot([1]);plt.title('销售额')", within(60)).ok(t)
		if found := x.shown("image/svg+xml"); len(found) != 1 || !strings.Contains(found[0].text("image/svg+xml"), "<svg") {
			t.Errorf("no SVG in %v", x.Results)
		}
	})
}

// TestT43WindowBackends: code that wants a window gets its chart, and a note.
func TestT43WindowBackends(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"TkAgg":        "import matplotlib\nmatplotlib.use('TkAgg')\nimport matplotlib.pyplot as plt",
		"Qt5Agg":       "import matplotlib\nmatplotlib.use('Qt5Agg', force=True)\nimport matplotlib.pyplot as plt",
		"switch":       "import matplotlib.pyplot as plt\nplt.switch_backend('GTK3Agg')",
		"after pyplot": "import matplotlib.pyplot as plt\nimport matplotlib\nmatplotlib.use('MacOSX')",
		"magic":        "%matplotlib qt\nimport matplotlib.pyplot as plt",
		"notebook":     "%matplotlib notebook\nimport matplotlib.pyplot as plt",
		"widget":       "%matplotlib widget\nimport matplotlib.pyplot as plt",
		"rcParams":     "import matplotlib\nmatplotlib.rcParams['backend']='TkAgg'\nimport matplotlib.pyplot as plt",
		"environment":  "import os\nos.environ['MPLBACKEND']='TkAgg'\nimport matplotlib.pyplot as plt",
		"agg":          "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
		"inline":       "%matplotlib inline\nimport matplotlib.pyplot as plt",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code+"\nplt.plot([1]);plt.show()", within(60))
			x.oneChart(t)
			noted := x.warned("chart.backend") != ""
			if quiet := []string{"agg", "inline", "rcParams", "environment"}; noted == slices.Contains(quiet, name) && !slices.Contains(quiet[2:], name) {
				t.Errorf("warnings: %+v", x.Warnings)
			}
		})
	}
}

// TestT45Pictures: a picture is shown, as a value and by show().
func TestT45Pictures(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, code := range map[string]string{
		"value":   "Image.new('RGB',(40,20),'red')",
		"show":    "Image.new('RGB',(40,20),'red').show()",
		"display": "display(Image.new('RGB',(40,20),'red'))",
		"grey":    "Image.new('L',(40,20),100)",
		"palette": "Image.new('P',(40,20))",
		"CMYK":    "Image.new('CMYK',(40,20))",
		"alpha":   "Image.new('RGBA',(40,20),(1,2,3,4)).show('a title')",
		"floats":  "Image.new('F',(40,20))",
		"bits":    "Image.new('1',(40,20))",
		"drawn":   "from PIL import ImageDraw\ni=Image.new('RGB',(40,20))\nImageDraw.Draw(i).line((0,0,9,9))\ni",
		"opened":  "Image.new('RGB',(40,20)).save('/tmp/a.png')\nImage.open('/tmp/a.png')",
		"array":   "import numpy as np\nImage.fromarray(np.zeros((20,40,3),'uint8'))",
		"IPython": "import io\nfrom IPython.display import Image as Shown\nb=io.BytesIO();Image.new('RGB',(40,20)).save(b,'PNG')\nShown(data=b.getvalue())",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, "from PIL import Image\n"+code, within(60)).ok(t)
			found := x.shown("image/png")
			if len(found) != 1 {
				t.Fatalf("%d pictures: %v", len(found), x.Warnings)
			}
			if size := decodePNG(t, found[0].picture(t)).Bounds().Size(); size != (image.Point{X: 40, Y: 20}) {
				t.Errorf("%v", size)
			}
		})
	}
	t.Run("jpeg", func(t *testing.T) {
		t.Parallel()
		x := s.run(t, "import io\nfrom PIL import Image\nfrom IPython.display import Image as Shown\nb=io.BytesIO();Image.new('RGB',(40,20)).save(b,'JPEG')\nShown(data=b.getvalue())", within(60)).ok(t)
		if len(x.shown("image/jpeg")) != 1 {
			t.Errorf("got %v", x.Results)
		}
	})
	t.Run("many pixels", func(t *testing.T) {
		t.Parallel()
		x := s.run(t, "from PIL import Image\nImage.new('L',(8000,8000))", within(60)).ok(t)
		if size := decodePNG(t, x.shown("image/png")[0].picture(t)).Bounds().Size(); size.X*size.Y > 16_000_000 || x.warned("image.reduced") == "" {
			t.Errorf("%v, %v", size, x.Warnings)
		}
	})
}

// TestT47GreatTables: the text is bounded and still names every column.
func TestT47GreatTables(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	const make = "import numpy as np, pandas as pd\n"
	for name, c := range map[string]struct {
		code    string
		shape   string
		columns int
	}{
		"a million rows": {"df=pd.DataFrame({f'column_{i:02}': np.zeros(1_000_000,'int8') for i in range(40)})\ndf", "1,000,000 rows x 40 columns", 40},
		"displayed":      {"df=pd.DataFrame({f'column_{i:02}': np.zeros(1_000_000,'int8') for i in range(40)})\ndisplay(df)", "1,000,000 rows x 40 columns", 40},
		"long texts":     {"df=pd.DataFrame({f'column_{i:02}': ['x'*10_000]*100 for i in range(40)})\ndf", "100 rows x 40 columns", 40},
		"settings":       {"pd.set_option('display.max_rows',None);pd.set_option('display.max_columns',None)\ndf=pd.DataFrame({f'column_{i:02}': np.zeros(100_000) for i in range(40)})\ndf", "100,000 rows x 40 columns", 40},
		"wide":           {"df=pd.DataFrame({f'column_{i:02}': [1] for i in range(5000)})\ndf", "1 rows x 5,000 columns", 100},
		"levels":         {"df=pd.DataFrame(np.zeros((1000,40)),columns=pd.MultiIndex.from_product([range(4),[f'column_{i:02}' for i in range(10)]]))\ndf", "1,000 rows x 40 columns", 10},
		"grouped":        {"df=pd.DataFrame({'k':range(100_000),**{f'column_{i:02}': range(100_000) for i in range(10)}})\ndf.groupby('k').sum()", "100,000 rows x 10 columns", 10},
		"polars":         {"import polars as pl\npl.DataFrame({f'column_{i:02}': np.zeros(1_000_000,'int8') for i in range(40)})", "1,000,000 rows x 40 columns", 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := s.run(t, make+"1").ok(t).Usage.MemoryPeak
			took(t, 2+3, func() {
				x := s.run(t, make+c.code, within(60)).ok(t)
				if len(x.Results) != 1 {
					t.Fatalf("%d results", len(x.Results))
				}
				text := x.Results[0].plain()
				if len(text) > 50<<10+inlineMost/2 || !strings.Contains(text, c.shape) {
					t.Errorf("%d bytes, end %q", len(text), text[max(0, len(text)-200):])
				}
				for i := range c.columns {
					if column := "column_" + string(rune('0'+i/10%10)) + string(rune('0'+i%10)); !strings.Contains(text, column) {
						t.Errorf("%s is not named", column)
					}
				}
				if most := base + 100<<20 + 100<<20; x.Usage.MemoryPeak > most { // the data itself has up to 80 MB
					t.Errorf("peak %d MiB, without the table %d", x.Usage.MemoryPeak>>20, base>>20)
				}
			})
		})
	}
}
