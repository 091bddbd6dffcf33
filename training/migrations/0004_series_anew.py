"""What is kept of series has another form. It is made anew from the events when it is read."""

from django.db import migrations


def forget_series(apps, schema_editor):
    alias = schema_editor.connection.alias
    apps.get_model("training", "JobSeries").objects.using(alias).all().delete()


class Migration(migrations.Migration):
    dependencies = [("training", "0003_token_statistics")]
    operations = [migrations.RunPython(forget_series, forget_series)]
